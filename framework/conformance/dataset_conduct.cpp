// Checks of how a dataset behaves: what examples depend on, who owns them, threads.
#include <ATen/Context.h>
#include <ATen/MemoryOverlap.h>
#include <fmt/format.h>

#include <exception>
#include <thread>
#include <tuple>

#include "framework/base/text.h"
#include "framework/conformance/dataset_checks.h"
#include "framework/conformance/memory.h"
#include "framework/host/process_state.h"

namespace attnlab::conformance {
namespace {

constexpr std::size_t kThreads = 4;

/// What threads ask for, and what one thread gets.
struct Asked {
  Split split;
  std::int64_t index;
  NamedTensors expected;
};

std::vector<Asked> asked_by_one(const Dataset& dataset) {
  std::vector<Asked> all;
  for (const Split split : kSplits) {
    for (const std::int64_t index : sample(dataset, split, 64)) {
      all.push_back({split, index, example_of(dataset, split, index, split == Split::train)});
    }
  }
  return all;
}

/// Asks for everything, beginning somewhere else than other threads do.
void ask_for_all(const Dataset& dataset, const std::vector<Asked>& all, std::size_t begin) {
  for (const Split split : kSplits) dataset.resident(split);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Asked& asked = all[(begin + i) % all.size()];
    expect_same(fmt::format("with {} threads, {}", kThreads, place_of(asked.split, asked.index)),
                example_of(dataset, asked.split, asked.index, asked.split == Split::train),
                asked.expected);
  }
}

/// Whether two elements are one place in memory.
bool overlaps_itself(const Tensor& tensor) {
  if (tensor.numel() < 2) return false;
  const at::MemOverlap known = at::has_internal_overlap(tensor);
  if (known != at::MemOverlap::TooHard) return known == at::MemOverlap::Yes;
  // Strides that leave gaps, or windows that overlap: the places themselves tell.
  Tensor places = at::zeros({1}, at::kLong);
  for (std::int64_t d = 0; d < tensor.dim(); ++d) {
    const Tensor steps = at::arange(tensor.size(d), at::kLong) * tensor.stride(d);
    places = (places.unsqueeze(1) + steps).reshape({-1});
  }
  const Tensor sorted = std::get<0>(places.sort(0));
  const std::int64_t pairs = sorted.size(0) - 1;
  return sorted.narrow(0, 0, pairs).eq(sorted.narrow(0, 1, pairs)).any().item<bool>();
}

/// Changes every element. @throws Failure where one cannot be changed without another.
void write_to(const std::string& what, Tensor tensor) {
  expect(!overlaps_itself(tensor),
         what + " cannot be written to: its elements overlap (expanded?)");
  if (tensor.scalar_type() == at::kBool) {
    tensor.logical_not_();
  } else {
    tensor.add_(1);
  }
}

/// Whether a sampled example differs.
bool differ(const Dataset& a, const Dataset& b) {
  for (const Split split : kSplits) {
    const std::int64_t both = std::min(a.size(split), b.size(split));
    for (const std::int64_t index : sample(a, split)) {
      if (index >= both) break;
      if (!same(example_of(a, split, index), example_of(b, split, index))) return true;
    }
  }
  return false;
}

}  // namespace

std::string check_example_determinism(const DatasetFixture& fixture) {
  const std::shared_ptr<const Dataset> a = fixture.fresh();
  at::manual_seed(4711);  // a dataset that draws from the process's numbers is found out
  const std::shared_ptr<const Dataset> b = fixture.fresh();
  for (const Split split : kSplits) {
    const std::vector<std::int64_t> indices = sample(*a, split);
    std::vector<NamedTensors> examples;
    for (const std::int64_t index : indices) {
      examples.push_back(copy_of(example_of(*a, split, index)));
    }
    for (std::size_t i = indices.size(); i-- > 0;) {  // and in another order
      const std::string what = place_of(split, indices[i]);
      expect_same(what + ", asked for twice", example_of(*a, split, indices[i]), examples[i]);
      expect_same(what + ", of a dataset opened again with the same seed",
                  example_of(*b, split, indices[i]), examples[i]);
    }
  }
  return "";
}

std::string check_augmentation(const DatasetFixture& fixture) {
  const Dataset& dataset = fixture.dataset();
  bool augments = false;
  for (const std::int64_t index : sample(dataset, Split::train, 16)) {
    const std::string what = place_of(Split::train, index);
    const NamedTensors plain = copy_of(example_of(dataset, Split::train, index));
    for (std::uint64_t stream = 0; stream < 8; ++stream) {
      Random first(stream), again(stream);
      const NamedTensors one = copy_of(dataset.example(Split::train, index, &first));
      augments |= !same(one, plain);
      example_of(dataset, Split::train, 0, /*augmented=*/true);  // must leave nothing behind
      expect_same(what + ", augmented twice from the same random stream",
                  dataset.example(Split::train, index, &again), one);
    }
    expect_same(what + " without a stream, after it was augmented",
                example_of(dataset, Split::train, index), plain);
  }
  return augments ? "" : "it changes no example";
}

std::string check_ownership(const DatasetFixture& fixture) {
  const Dataset& dataset = fixture.dataset();
  for (const Split split : kSplits) {
    for (const std::int64_t index : sample(dataset, split, 8)) {
      const NamedTensors example = example_of(dataset, split, index);
      const NamedTensors before = copy_of(example);
      for (const auto& [name, tensor] : example) {
        write_to(fmt::format("{}, field '{}',", place_of(split, index), name), tensor);
      }
      expect_same(place_of(split, index) + ", asked for after one before it was written to",
                  example_of(dataset, split, index), before);
    }
  }
  return "";
}

std::string check_threads(const DatasetFixture& fixture) {
  const std::vector<Asked> all = asked_by_one(fixture.dataset());
  const std::shared_ptr<const Dataset> dataset = fixture.fresh();  // what is made late is made now
  std::vector<std::exception_ptr> errors(kThreads);
  {
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        try {
          ask_for_all(*dataset, all, t * all.size() / kThreads);
        } catch (...) {
          errors[t] = std::current_exception();
        }
      });
    }
  }
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  return "";
}

std::string check_fingerprint(const DatasetFixture& fixture) {
  const Dataset& dataset = fixture.dataset();
  const std::string before = dataset.info().fingerprint;
  expect(!before.empty(), "info().fingerprint is empty");
  for (const std::int64_t index : sample(dataset, Split::train)) {
    example_of(dataset, Split::train, index);
  }
  expect(dataset.info().fingerprint == before,
         "the fingerprint is another after examples were read");
  const std::string again = fixture.fresh()->info().fingerprint;
  expect(again == before,
         fmt::format("the same data opened twice have the fingerprints {} and {}", before, again));
  if (!fixture.source_folder().empty()) return "changed files: see the check damage";
  std::size_t compared = 0;
  const auto compare = [&](const std::string& name, const Dataset& other) {
    if (!differ(dataset, other)) return;
    ++compared;
    expect(
        other.info().fingerprint != before,
        fmt::format("with {} the examples are others, but the fingerprint stays {}", name, before));
  };
  compare("another seed", *fixture.fresh(DatasetSubject::kSeed + 1));
  for (const DatasetSubject::Variant& variant : fixture.subject().variants) {
    std::shared_ptr<const Dataset> other;
    try {
      other = variant.open();
    } catch (const ConfigError&) {
      continue;  // a value that does not go with the others
    } catch (const DataMissingError&) {
      continue;  // a value that asks for other data, which are not here
    }
    compare(variant.name, *other);
  }
  return fmt::format("{} other sets of examples compared", compared);
}

std::string check_dataset_process_state(const DatasetFixture& fixture) {
  const ProcessState before;
  const std::shared_ptr<const Dataset> dataset = fixture.fresh();
  for (const Split split : kSplits) {
    std::vector<NamedTensors> examples;
    for (const std::int64_t index : sample(*dataset, split, 8)) {
      examples.push_back(example_of(*dataset, split, index, split == Split::train));
    }
    dataset->collate(examples);
    dataset->resident(split);
    dataset->plan({.split = split, .training = split == Split::train});
  }
  const std::vector<std::string> changes = before.changes();
  expect(changes.empty(), "opening and reading the data changes " + join(changes, ", "));
  return "";
}

std::string check_dataset_memory(const DatasetFixture& fixture) {
  const Dataset& dataset = fixture.dataset();
  for (const Split split : kSplits) {
    const std::vector<std::int64_t> some = sample(dataset, split, 4);
    if (some.empty()) continue;
    expect_no_leak(fmt::format("an example and its batch ({})", name_of(split)), [&] {
      std::vector<NamedTensors> examples;
      for (const std::int64_t index : some) {
        examples.push_back(example_of(dataset, split, index, split == Split::train));
      }
      dataset.collate(examples);
    });
  }
  return "";
}

}  // namespace attnlab::conformance
