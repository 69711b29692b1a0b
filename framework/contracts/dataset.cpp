#include "framework/contracts/dataset.h"

#include <fmt/format.h>

#include <numeric>

#include "framework/base/text.h"

namespace attnlab {
namespace {

std::vector<std::int64_t> in_order(std::int64_t n) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

/// Every example in the epoch's order, `repeat` times in a row: copies that are far apart are not
/// what repeated augmentation is.
std::vector<std::int64_t> drawn(std::int64_t n, const PlanRequest& request, std::uint64_t epoch) {
  const std::vector<std::int64_t> once = permutation(n, request.streams.stream("order", epoch));
  std::vector<std::int64_t> order;
  order.reserve(once.size() * static_cast<std::size_t>(request.repeat));
  for (const std::int64_t index : once) {
    order.insert(order.end(), static_cast<std::size_t>(request.repeat), index);
  }
  return order;
}

std::vector<std::int64_t> equal_ends(std::int64_t n, std::int64_t size, bool drop_last) {
  std::vector<std::int64_t> ends;
  for (std::int64_t end = size; end <= n; end += size) ends.push_back(end);
  if (!drop_last && n % size != 0) ends.push_back(n);
  return ends;
}

/// Batches as full as the budget allows.
std::vector<std::int64_t> ends_within(const Dataset& dataset, const PlanRequest& request,
                                      const std::vector<std::int64_t>& order) {
  std::vector<std::int64_t> ends;
  std::int64_t sum = 0, begin = 0;
  for (std::int64_t i = 0; i < std::int64_t(order.size()); ++i) {
    const std::int64_t index = order[std::size_t(i)];
    const std::int64_t cost = dataset.cost(request.split, index);
    if (cost > request.budget) {
      throw DataError(
          fmt::format("example {} of the {} split costs {}, more than train.batching.budget ({}) "
                      "holds; raise the budget",
                      index, name_of(request.split), cost, request.budget));
    }
    if (i > begin && sum + cost > request.budget) {
      ends.push_back(i);
      begin = i;
      sum = 0;
    }
    sum += cost;
  }
  if (!order.empty()) ends.push_back(std::int64_t(order.size()));
  return ends;
}

/// The same batches in another order.
EpochPlan reordered(const EpochPlan& plan, Random random) {
  EpochPlan out;
  for (const std::int64_t batch : permutation(plan.batches(), random)) {
    const std::int64_t begin = batch == 0 ? 0 : plan.ends[std::size_t(batch) - 1];
    out.order.insert(out.order.end(), plan.order.begin() + begin,
                     plan.order.begin() + plan.ends[std::size_t(batch)]);
    out.ends.push_back(std::int64_t(out.order.size()));
  }
  return out;
}

}  // namespace

std::string_view name_of(Split split) {
  switch (split) {
    case Split::train:
      return "train";
    case Split::validation:
      return "validation";
    case Split::test:
      return "test";
  }
  throw Error(fmt::format("Split has no value {}", static_cast<int>(split)));
}

const FieldInfo& DatasetInfo::field(std::string_view wanted) const {
  std::vector<std::string> names;
  for (const FieldInfo& field : fields) {
    if (field.name == wanted) return field;
    names.push_back(field.name);
  }
  throw DataError(fmt::format("dataset '{}' has no field '{}'; it has {}", name, wanted,
                              names.empty() ? "none" : join(names, ", ")));
}

std::string DatasetInfo::class_word(std::int64_t number) const {
  const auto at = static_cast<std::size_t>(number);
  return at < class_names.size() ? json_quote(class_names[at]) : std::to_string(number);
}

std::int64_t units_of(const DatasetInfo& info, const Batch& batch) {
  if (info.unit_field.empty()) return batch.size;
  if (batch.offsets.find(info.unit_field) != nullptr) return rows_of(batch, info.unit_field);
  const Tensor* valid = batch.fields.find(info.unit_field + "_valid");
  if (valid != nullptr) return valid->sum().item<std::int64_t>();  // padding is none
  return batch.fields.at(info.unit_field).numel();
}

EpochPlan default_plan(const Dataset& dataset, const PlanRequest& request) {
  const std::int64_t n = dataset.size(request.split);
  const bool by_cost = request.budget > 0;
  if (!request.training) {
    EpochPlan plan{in_order(n), {}};
    plan.ends = by_cost ? ends_within(dataset, request, plan.order)
                        : equal_ends(n, request.batch_size, /*drop_last=*/false);
    return plan;
  }
  if (by_cost) {
    EpochPlan plan{drawn(n, request, 0), {}};
    plan.ends = ends_within(dataset, request, plan.order);
    return reordered(plan, request.streams.stream("order", request.epoch, 1));
  }
  EpochPlan plan{drawn(n, request, request.epoch), {}};
  plan.ends = equal_ends(n * request.repeat, request.batch_size, request.drop_last);
  return plan;
}

NamedTensors Dataset::example(Split split, std::int64_t index, Random* augmentation) const {
  const std::int64_t count = size(split);
  if (index < 0 || index >= count) {
    throw DataError(
        fmt::format("dataset '{}': there is no example {} in the {} split, which has {}",
                    info().name, index, name_of(split), count));
  }
  return make_example(split, index, augmentation);
}

EpochPlan Dataset::plan(const PlanRequest& request) const { return default_plan(*this, request); }

Batch Dataset::collate(const std::vector<NamedTensors>& examples) const {
  return collated(examples, info().fields);
}

}  // namespace attnlab
