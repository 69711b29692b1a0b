// Checks of what a dataset says of itself: splits, fields, indices, costs.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "framework/base/text.h"
#include "framework/conformance/dataset_checks.h"

namespace attnlab::conformance {
namespace {

/// A field's name in a manifest, without what says when it is there ("class?", "type if
/// head=node").
std::string bare(const std::string& name) { return name.substr(0, name.find_first_of("? ")); }

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::vector<std::string> sizes;
  for (const std::int64_t size : shape) sizes.push_back(std::to_string(size));
  std::string text = "[";
  text += join(sizes, ", ");
  return text + "]";
}

/// Names, manifest, and the numbers that say what values mean.
void check_fields(const DatasetInfo& info, const std::vector<std::string>& gives) {
  std::set<std::string> names, promised;
  for (const std::string& name : gives) promised.insert(bare(name));
  for (const FieldInfo& field : info.fields) {
    const std::string what = fmt::format("info().fields, '{}'", field.name);
    parse_field_name(field.name);
    expect(names.insert(field.name).second, what + ": stands there twice");
    expect(gives.empty() || promised.count(field.name) > 0,
           what + ": the plugin's manifest does not list it under `gives`");
    const bool least = std::all_of(field.shape.begin(), field.shape.end(),
                                   [](std::int64_t size) { return size >= -1; });
    expect(least, fmt::format("{}: a size in {} is below -1", what, shape_text(field.shape)));
    expect(field.categories == 0 || field.dtype == at::kLong,
           what + ": only an int64 field has categories");
    expect(field.mean.size() == field.deviation.size(),
           fmt::format("{}: has {} means and {} deviations", what, field.mean.size(),
                       field.deviation.size()));
    const bool positive = std::all_of(field.deviation.begin(), field.deviation.end(),
                                      [](double deviation) { return deviation > 0; });
    expect(positive, what + ": a deviation is not above 0");
  }
  expect(!names.empty(), "info().fields is empty");
}

void check_classes(const DatasetInfo& info) {
  const auto count = static_cast<std::int64_t>(info.class_names.size());
  expect(count == 0 || count == info.classes,
         fmt::format("info() has {} classes and {} class_names", info.classes, count));
  for (const auto& [group, classes] : info.class_groups) {
    for (const std::int64_t label : classes) {
      expect(label >= 0 && label < info.classes,
             fmt::format("class_groups, '{}': {} is not a class", group, label));
    }
  }
}

/// Whether values of a field lie where its description says.
void check_values(const std::string& what, const FieldInfo& field, const DatasetInfo& info,
                  const Tensor& tensor) {
  if (tensor.numel() == 0) return;
  if (tensor.is_floating_point()) expect_finite(what, tensor);
  std::int64_t limit = field.categories;
  if (field.name == "class") limit = info.classes;
  if (field.name == "tokens") limit = info.vocabulary;
  if (limit == 0 || tensor.scalar_type() != at::kLong) return;
  const auto largest = tensor.max().item<std::int64_t>();
  expect(largest < limit,
         fmt::format("{}: holds {}, but info() says 0 to {}", what, largest, limit - 1));
}

/// Rows of axes agree with each other, and values that are rows exist.
void check_axes(const std::string& what, const NamedTensors& example) {
  std::map<std::string, std::int64_t, std::less<>> rows;
  for (const auto& [name, tensor] : example) {
    const FieldName parsed = parse_field_name(name);
    if (parsed.axis.empty()) continue;
    expect(tensor.dim() > 0, fmt::format("{}, '{}': {} has no rows", what, name, describe(tensor)));
    const auto [own, first] = rows.emplace(parsed.axis, tensor.size(0));
    expect(first || own->second == tensor.size(0),
           fmt::format("{}, '{}': has {} rows where other fields of axis '{}' have {}", what, name,
                       tensor.size(0), own->first, own->second));
  }
  for (const auto& [name, tensor] : example) {
    const FieldName parsed = parse_field_name(name);
    if (parsed.target.empty()) continue;
    const auto target = rows.find(parsed.target);
    expect(target != rows.end(),
           fmt::format("{}, '{}': no field lies along axis '{}'", what, name, parsed.target));
    if (tensor.numel() == 0) continue;
    const auto largest = tensor.max().item<std::int64_t>();
    expect(largest < target->second,
           fmt::format("{}, '{}': names row {} of axis '{}', which has {} rows", what, name,
                       largest, parsed.target, target->second));
  }
}

void check_example(const std::string& what, const NamedTensors& example, const DatasetInfo& info) {
  for (const auto& [name, tensor] : example) {
    const auto known =
        std::find_if(info.fields.begin(), info.fields.end(),
                     [&, &name = name](const FieldInfo& field) { return field.name == name; });
    const std::string own = fmt::format("{}, '{}'", what, name);
    expect(known != info.fields.end(), own + ": info() has no such field");
    expect(tensor.defined(), own + ": is undefined");
    expect(tensor.device().is_cpu(), own + ": is not on the CPU");
    expect(tensor.scalar_type() == known->dtype,
           fmt::format("{}: is {}, but info() says {}", own, describe(tensor),
                       at::toString(known->dtype)));
    bool fits = tensor.dim() == static_cast<std::int64_t>(known->shape.size());
    for (std::int64_t d = 0; fits && d < tensor.dim(); ++d) {
      const std::int64_t size = known->shape[static_cast<std::size_t>(d)];
      fits = size == -1 || size == tensor.size(d);
    }
    expect(fits, fmt::format("{}: is {}, but info() says {}", own, describe(tensor),
                             shape_text(known->shape)));
    check_values(own, *known, info, tensor);
  }
  for (const FieldInfo& field : info.fields) {
    if (example.find(field.name) != nullptr) continue;
    // "x_valid" is made for "x" when examples become a batch.
    const bool made = field.name.ends_with("_valid") &&
                      example.find(field.name.substr(0, field.name.size() - 6)) != nullptr;
    expect(made, fmt::format("{} lacks the field '{}' that info() promises", what, field.name));
  }
  check_axes(what, example);
}

}  // namespace

std::string check_splits(const DatasetFixture& fixture) {
  const Dataset& dataset = fixture.dataset();
  const std::shared_ptr<const Dataset> other = fixture.fresh();
  std::vector<std::string> sizes;
  for (const Split split : kSplits) {
    const std::int64_t size = dataset.size(split);
    const std::string what = fmt::format("the {} split has ", name_of(split));
    expect(size >= 0, fmt::format("{}{} examples", what, size));
    expect(split != Split::train || size > 0, what + "no examples; there is nothing to train on");
    for (const std::int64_t again : {dataset.size(split), other->size(split)}) {
      expect(again == size,
             fmt::format("{}{} examples, and {} when asked again", what, size, again));
    }
    sizes.push_back(fmt::format("{} {}", size, name_of(split)));
  }
  return join(sizes, ", ");
}

std::string check_description(const DatasetFixture& fixture) {
  const Dataset& dataset = fixture.dataset();
  const DatasetInfo& info = dataset.info();
  expect(!info.name.empty(), "info().name is empty");
  expect(!info.source.empty(), "info().source is empty");
  check_fields(info, fixture.subject().gives);
  check_classes(info);
  for (const Split split : kSplits) {
    for (const std::int64_t index : sample(dataset, split, 64)) {
      for (const bool augmented : {false, split == Split::train}) {
        check_example(place_of(split, index) + (augmented ? ", augmented" : ""),
                      example_of(dataset, split, index, augmented), info);
      }
    }
  }
  return "";
}

std::string check_cost(const DatasetFixture& fixture) {
  const Dataset& dataset = fixture.dataset();
  std::int64_t least = INT64_MAX, most = 0;
  for (const Split split : kSplits) {
    for (const std::int64_t index : sample(dataset, split, 256)) {
      const std::int64_t cost = dataset.cost(split, index);
      expect(cost > 0, fmt::format("{} costs {}; a batch's budget is filled by costs above 0",
                                   place_of(split, index), cost));
      expect(dataset.cost(split, index) == cost,
             place_of(split, index) + " costs something else when asked again");
      least = std::min(least, cost);
      most = std::max(most, cost);
    }
  }
  return least == most ? fmt::format("each {}", most) : fmt::format("{} to {}", least, most);
}

}  // namespace attnlab::conformance
