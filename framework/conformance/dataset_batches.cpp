// Checks of batches: examples together, splits in memory, plans of epochs.
#include <fmt/format.h>

#include <algorithm>

#include "framework/conformance/dataset_checks.h"

namespace attnlab::conformance {
namespace {

/// What the host relies on in every batch.
void check_batch(const std::string& what, const Batch& batch, std::int64_t size,
                 const DatasetInfo& info) {
  expect(batch.size == size, fmt::format("{} says that it holds {}", what, batch.size));
  for (const auto& [axis, offsets] : batch.offsets) {
    const std::string own = fmt::format("{}, offsets of axis '{}': ", what, axis);
    expect(offsets.scalar_type() == at::kLong && offsets.device().is_cpu() && offsets.dim() == 1 &&
               offsets.numel() == size + 1 && offsets.is_contiguous(),
           fmt::format("{}{}, expected [{}] int64 on the CPU", own, describe(offsets), size + 1));
    const auto* ends = offsets.data_ptr<std::int64_t>();
    expect(ends[0] == 0 && std::is_sorted(ends, ends + size + 1), own + "do not rise from 0");
  }
  for (const auto& [name, tensor] : batch.fields) {
    const std::string own = fmt::format("{}, field '{}': ", what, name);
    const bool known =
        std::any_of(info.fields.begin(), info.fields.end(),
                    [&, &name = name](const FieldInfo& field) { return field.name == name; });
    expect(known, own + "info() has no such field");
    const FieldName parsed = parse_field_name(name);
    std::int64_t rows = size;
    if (!parsed.axis.empty()) {
      expect(batch.offsets.find(parsed.axis) != nullptr, own + "the batch lacks its axis");
      rows = rows_of(batch, parsed.axis);
    }
    expect(tensor.dim() > 0 && tensor.size(0) == rows,
           fmt::format("{}is {}, expected {} rows", own, describe(tensor), rows));
  }
  for (const FieldInfo& field : info.fields) {
    expect(batch.fields.find(field.name) != nullptr,
           fmt::format("{} lacks the field '{}'", what, field.name));
  }
  expect(units_of(info, batch) >= 0, what + ": info().unit_field cannot be counted");
}

/// Example i of a batch against the same example as a batch of its own.
void expect_alone(const std::string& what, const Dataset& dataset, const Batch& batch,
                  std::int64_t i, const NamedTensors& example) {
  const Batch alone = dataset.collate({example});
  check_batch(what + " as a batch of its own", alone, 1, dataset.info());
  const Batch part = slice(batch, i, 1);
  expect_same(what, without_padding(what, part, alone, dataset.info()), alone.fields);
}

// ---- plans

std::string text_of(const PlanRequest& request) {
  return fmt::format("a plan of {}{}, batch_size {}, repeat {}, budget {}, epoch {}",
                     name_of(request.split), request.training ? " in training" : "",
                     request.batch_size, request.repeat, request.budget, request.epoch);
}

/// One plan: batches end one after the other, hold examples that exist, and are as large as asked.
void check_one_plan(const Dataset& dataset, const PlanRequest& request, const EpochPlan& plan) {
  const std::string what = text_of(request);
  const auto count = static_cast<std::int64_t>(plan.order.size());
  std::int64_t begin = 0, first_size = plan.ends.empty() ? 0 : plan.ends.front();
  for (const std::int64_t end : plan.ends) {
    expect(end > begin && end <= count,
           fmt::format("{}: a batch ends at {} after one at {}, of {} examples", what, end, begin,
                       count));
    expect(!plan.continues || end - begin == first_size,
           fmt::format("{}: batches that continue each other must be equally large; one holds {} "
                       "examples, the first {}",
                       what, end - begin, first_size));
    begin = end;
  }
  for (const std::int64_t index : plan.order) {
    expect(index >= 0 && index < dataset.size(request.split),
           fmt::format("{}: names example {} of {}", what, index, dataset.size(request.split)));
  }
  if (request.budget == 0) return;
  begin = 0;
  for (const std::int64_t end : plan.ends) {
    std::int64_t sum = 0;
    for (; begin < end; ++begin) {
      sum += dataset.cost(request.split, plan.order[static_cast<std::size_t>(begin)]);
    }
    expect(sum <= request.budget, fmt::format("{}: a batch costs {}", what, sum));
  }
}

bool same_plan(const EpochPlan& a, const EpochPlan& b) {
  return a.order == b.order && a.ends == b.ends && a.continues == b.continues;
}

void check_training_plans(const Dataset& dataset, PlanRequest request) {
  request.training = true;
  std::int64_t batches = -1;
  for (request.epoch = 0; request.epoch < 3; ++request.epoch) {
    const EpochPlan plan = dataset.plan(request);
    check_one_plan(dataset, request, plan);
    const std::string what = text_of(request);
    expect(same_plan(plan, dataset.plan(request)), what + ": is another when asked for again");
    if (batches < 0) batches = plan.batches();
    expect(plan.batches() == batches,
           fmt::format("{}: has {} batches, epoch 0 has {}", what, plan.batches(), batches));
  }
}

/// Of evaluation: the same whatever the epoch and the seed.
void check_evaluation_plans(const Dataset& dataset, PlanRequest request) {
  const EpochPlan plan = dataset.plan(request);
  check_one_plan(dataset, request, plan);
  expect(plan.batches() > 0, text_of(request) + ": has no batches");
  request.epoch = 5;
  request.streams = RandomStreams(99);
  expect(
      same_plan(plan, dataset.plan(request)),
      text_of(request) + ": differs from that of another epoch or seed; evaluation draws nothing");
}

std::int64_t dearest(const Dataset& dataset, Split split) {
  std::int64_t most = 1;
  for (std::int64_t i = 0; i < dataset.size(split); ++i) {
    most = std::max(most, dataset.cost(split, i));
  }
  return most;
}

}  // namespace

std::string check_collate(const DatasetFixture& fixture) {
  const Dataset& dataset = fixture.dataset();
  for (const Split split : kSplits) {
    const std::vector<std::int64_t> indices = sample(dataset, split, 7);
    if (indices.empty()) continue;
    std::vector<NamedTensors> examples, before;
    for (const std::int64_t index : indices) {
      examples.push_back(example_of(dataset, split, index));
      before.push_back(copy_of(examples.back()));
    }
    const Batch batch = dataset.collate(examples);
    const std::string what =
        fmt::format("a batch of {} {} examples", indices.size(), name_of(split));
    check_batch(what, batch, static_cast<std::int64_t>(indices.size()), dataset.info());
    for (std::size_t i = 0; i < indices.size(); ++i) {
      expect_same(place_of(split, indices[i]) + " after collate()", examples[i], before[i]);
    }
    for (std::size_t i = 0; i < indices.size(); ++i) {
      const std::string own =
          fmt::format("{} in {}, against it alone", place_of(split, indices[i]), what);
      expect_alone(own, dataset, batch, static_cast<std::int64_t>(i), examples[i]);
    }
  }
  return "";
}

std::string check_resident(const DatasetFixture& fixture) {
  const Dataset& dataset = fixture.dataset();
  int splits = 0;
  for (const Split split : kSplits) {
    const Batch* resident = dataset.resident(split);
    if (resident == nullptr) continue;
    ++splits;
    const std::string what = fmt::format("resident({})", name_of(split));
    expect(resident == dataset.resident(split), what + " is another when asked for again");
    check_batch(what, *resident, dataset.size(split), dataset.info());
    for (const std::int64_t index : sample(dataset, split)) {
      const NamedTensors example = example_of(dataset, split, index);
      expect_same(place_of(split, index) + ", augmented: a split in memory is never augmented",
                  example_of(dataset, split, index, /*augmented=*/true), example);
      expect_alone(fmt::format("{}, {}", what, place_of(split, index)), dataset, *resident, index,
                   example);
    }
  }
  if (splits == 0) throw NotApplicable("no split is in memory");
  return "";
}

std::string check_plan(const DatasetFixture& fixture) {
  const Dataset& dataset = fixture.dataset();
  for (const std::int64_t batch_size : {1, 3, 16}) {
    for (const bool drop_last : {false, true}) {
      check_training_plans(dataset, {.batch_size = batch_size, .drop_last = drop_last});
    }
    for (const Split split : kSplits) {
      if (dataset.size(split) == 0) continue;
      check_evaluation_plans(dataset, {.split = split, .batch_size = batch_size});
    }
  }
  check_training_plans(dataset, {.batch_size = 4, .repeat = 2});
  check_training_plans(dataset, {.budget = 4 * dearest(dataset, Split::train)});
  return "";
}

}  // namespace attnlab::conformance
