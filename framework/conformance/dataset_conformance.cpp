#include "framework/conformance/dataset_conformance.h"

#include <fmt/format.h>

#include <optional>

#include "framework/base/text.h"
#include "framework/conformance/check_table.h"
#include "framework/conformance/dataset_checks.h"

namespace attnlab::conformance {
namespace {

constexpr CheckEntry<DatasetFixture> kDatasetEntries[] = {
    {"splits", check_splits},
    {"description", check_description},
    {"determinism", check_example_determinism},
    {"augmentation", check_augmentation},
    {"ownership", check_ownership},
    {"threads", check_threads},
    {"fingerprint", check_fingerprint},
    {"cost", check_cost},
    {"collate", check_collate},
    {"resident", check_resident},
    {"plan", check_plan},
    {"damage", check_damage},
    {"process_state", check_dataset_process_state},
    {"memory", check_dataset_memory},
};
static_assert(lists_agree(kDatasetEntries, kDatasetChecks),
              "check_list.h and the functions must name the same checks");

/// Another value of an option, or nothing where there is none to try.
std::optional<std::string> other_value(const OptionSpec& option, const Node& value) {
  if (option.list || !value.is_scalar()) return std::nullopt;
  using Type = OptionSpec::Type;
  const auto within = [&](double number) {
    return number >= option.low.value_or(number) && number <= option.high.value_or(number);
  };
  if (option.type == Type::boolean) return value.as_bool().value_or(false) ? "false" : "true";
  if (option.type == Type::integer && value.as_int()) {
    for (const std::int64_t other : {*value.as_int() + 1, *value.as_int() - 1}) {
      if (within(double(other))) return std::to_string(other);
    }
  }
  if (option.type == Type::real && value.as_double()) {
    for (const double other : {1.5 * *value.as_double() + 0.1, 0.5 * *value.as_double()}) {
      if (within(other)) return shortest(other);
    }
  }
  for (const std::string& choice : option.choices) {
    if (choice != value.text()) return choice;
  }
  return std::nullopt;
}

Part with(Part part, const std::string& option, const std::string& value, bool quoted = false) {
  part.options.set(option, Node::scalar(value, {}, quoted));
  return part;
}

}  // namespace

DatasetSubject subject_of(Registry& registry, const Part& part,
                          std::function<void(const std::string&)> trying) {
  const auto open = [&registry](const Part& opened, std::uint64_t seed) {
    return registry.dataset(opened, {.streams = RandomStreams(seed)});
  };
  const Manifest& manifest = *registry.catalogue().find(Kind::dataset, lookup_name(part)).manifest;
  DatasetSubject subject;
  subject.trying = std::move(trying);
  subject.gives = manifest.gives;
  subject.open = [=](std::uint64_t seed) { return open(part, seed); };
  for (const OptionSpec& option : manifest.options) {
    const Node* value = part.options.find(option.name);
    if (option.name == "root") {
      if (value != nullptr) subject.root = value->text();
      subject.open_folder = [=](const std::string& folder) {
        return open(with(part, "root", folder, /*quoted=*/true), DatasetSubject::kSeed);
      };
      continue;
    }
    if (value == nullptr) continue;
    const std::optional<std::string> other = other_value(option, *value);
    if (!other) continue;
    const Part changed = with(part, option.name, *other);
    subject.variants.push_back({fmt::format("{}={}", option.name, *other),
                                [=] { return open(changed, DatasetSubject::kSeed); }});
  }
  return subject;
}

CheckResult run_check(std::string_view check, const DatasetSubject& subject) {
  const CheckEntry<DatasetFixture>& entry = find_check(kDatasetEntries, check, kDatasetChecks);
  return judged(entry.name, [&] { return entry.run(DatasetFixture(subject)); });
}

std::vector<CheckResult> run_checks(const DatasetSubject& subject) {
  std::vector<CheckResult> results;
  for (const CheckInfo& info : kDatasetChecks) results.push_back(run_check(info.name, subject));
  return results;
}

}  // namespace attnlab::conformance
