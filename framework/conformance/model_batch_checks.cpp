// Checks of what examples of one batch, and models trained together, must not know of each other.
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>

#include "framework/base/text.h"
#include "framework/conformance/model_checks.h"
#include "framework/conformance/stack.h"

namespace attnlab::conformance {
namespace {

constexpr std::int64_t kModelMembers = 2;

/// What is longer than the other in some dimensions (padding), cut to its size.
Tensor cut_to(Tensor tensor, const Tensor& like) {
  for (std::int64_t d = 0; d < std::min(tensor.dim(), like.dim()); ++d) {
    if (tensor.size(d) > like.size(d)) tensor = tensor.narrow(d, 0, like.size(d));
  }
  return tensor;
}

/// Numbers that no example holds, in the field's dtype: other tokens, other values.
Tensor garbage_like(const Tensor& tensor, std::int64_t below) {
  const Tensor noise = Draw(99).normal(tensor.sizes()) * 7;
  if (tensor.is_floating_point()) return noise.to(tensor.scalar_type());
  return (noise.abs() * 100)
      .to(at::kLong)
      .remainder(std::max<std::int64_t>(below, 1))
      .to(tensor.scalar_type());
}

/// Tokens may be any of the vocabulary, categories any of theirs.
std::int64_t values_below(const DatasetInfo& info, const std::string& name) {
  const std::int64_t categories = info.field(name).categories;
  return categories > 0 ? categories : info.vocabulary;
}

/// The batch with other numbers wherever `real` says that there is none of an example's own.
struct DisturbedBatch {
  Batch batch;
  bool anything = false;  ///< there was padding
};

void disturb(DisturbedBatch& out, const DatasetInfo& info, const std::string& name,
             const Tensor& real) {
  const Tensor& tensor = out.batch.fields.at(name);
  if (real.all().item<bool>()) return;
  Tensor mask = real;
  // Of images, whose channels come first.
  if (mask.dim() > 2 && mask.size(1) != tensor.size(1)) mask = mask.unsqueeze(1);
  while (mask.dim() < tensor.dim()) mask = mask.unsqueeze(-1);
  out.batch.fields.set(name,
                       at::where(mask, tensor, garbage_like(tensor, values_below(info, name))));
  out.anything = true;
}

/// Where examples that differ in size were padded: masks of fields, from the examples themselves.
DisturbedBatch with_garbage_in_padding(const Dataset& data,
                                       const std::vector<std::int64_t>& indices) {
  DisturbedBatch out{in_double(batch_of(data, indices))};
  for (const FieldInfo& field : data.info().fields) {
    const bool differs = std::count(field.shape.begin(), field.shape.end(), -1) > 0;
    if (!differs || field.dtype == at::kBool || field.name.find('@') != std::string::npos) continue;
    const Tensor& tensor = out.batch.fields.at(field.name);
    const Tensor real = at::zeros(tensor.sizes(), at::kBool);
    for (std::size_t i = 0; i < indices.size(); ++i) {
      const NamedTensors example = training_example(data, indices[i]);
      Tensor part = real[static_cast<std::int64_t>(i)];
      const Tensor& own = example.at(field.name);
      for (std::int64_t d = 0; d < own.dim(); ++d) part = part.narrow(d, 0, own.size(d));
      part.fill_(true);
    }
    disturb(out, data.info(), field.name, real);
  }
  return out;
}

/// Fields of one length whose masks NAME_valid say what is real.
std::vector<std::string> masked_fields(const Dataset& data, const Batch& batch) {
  std::vector<std::string> names;
  for (const FieldInfo& field : data.info().fields) {
    const bool fixed = std::count(field.shape.begin(), field.shape.end(), -1) == 0;
    if (fixed && batch.fields.find(field.name + "_valid") != nullptr) names.push_back(field.name);
  }
  return names;
}

/// Whether the model reads the mask at all.
bool reads_mask(const ModelFixture& fixture, const Batch& batch, const std::string& mask) {
  const auto model = fixture.model();
  Batch all_real = batch;
  all_real.fields.set(mask, at::ones_like(batch.fields.at(mask)));
  const NamedTensors with = outputs_of(*model, batch), without = outputs_of(*model, all_real);
  return std::any_of(with.begin(), with.end(), [&](const auto& output) {
    return largest_difference(output.second, without.at(output.first)) > 0;
  });
}

/// The outputs of real tokens: what stands in padding does not count.
void expect_same_examples(const Dataset& data, const std::vector<std::int64_t>& indices,
                          Model& model, const NamedTensors& found, const Batch& batch) {
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const Batch single = in_double(batch_of(data, {indices[i]}));
    for (const auto& [name, alone] : outputs_of(model, single)) {
      const Tensor own = rows_of_example(name, found.at(name), batch, static_cast<std::int64_t>(i));
      expect_close(
          fmt::format("output '{}' of example {} of {}, against it alone", name, i, indices.size()),
          cut_to(own, alone), alone, kRegrouped);
    }
  }
}

/// A model of all members, with the parameters of the single ones.
/// @throws Failure where a parameter is not each member's own.
std::shared_ptr<Model> side_by_side(const ModelFixture& fixture, const AttentionBuilder& attention,
                                    const Dataset& data,
                                    const std::vector<std::shared_ptr<Model>>& singles) {
  const auto together = fixture.model({data, attention, 5, kModelMembers});
  const at::NoGradGuard no_gradients;
  for (const auto& [name, all] : kept_tensors(*together)) {
    std::vector<Tensor> rows;
    for (const auto& single : singles) {
      for (const auto& [own_name, own] : kept_tensors(*single)) {
        if (own_name == name) rows.push_back(own);
      }
    }
    const std::string what =
        fmt::format("of {} members, '{}' is {}", kModelMembers, name, describe(all));
    expect(rows.size() == singles.size() && rows[0].dim() > 0,
           what + ", and one model has none such with rows");
    std::vector<std::int64_t> expected = rows[0].sizes().vec();
    expected[0] *= kModelMembers;
    expect(
        all.sizes() == at::IntArrayRef(expected),
        fmt::format(
            "{}, expected as many times the rows of {}, which one model has (ModelSetup::members)",
            what, describe(rows[0])));
    Tensor(all).copy_(at::cat(rows));
  }
  return together;
}

void compare_members(const ModelFixture& fixture, const AttentionBuilder& attention,
                     const Dataset& data) {
  std::vector<std::shared_ptr<Model>> singles;
  for (std::uint64_t m = 0; m < kModelMembers; ++m) {
    singles.push_back(fixture.model({data, attention, m + 1}));
  }
  const auto together = side_by_side(fixture, attention, data, singles);
  const Batch all = in_double(batch_of(data, {0, 1, 2, 3, 4, 5}));
  const std::int64_t own = all.size / kModelMembers;
  const NamedTensors outputs = outputs_of(*together, all);
  for (std::int64_t m = 0; m < kModelMembers; ++m) {
    const NamedTensors alone =
        outputs_of(*singles[static_cast<std::size_t>(m)], slice(all, m * own, own));
    NamedTensors part;
    for (const auto& [name, output] : outputs) part.set(name, output.chunk(kModelMembers, 0)[m]);
    expect_close(fmt::format("member {} of {}, against it alone", m, kModelMembers), part, alone);
  }
}

}  // namespace

std::string check_batch(const ModelFixture& fixture) {
  const std::vector<std::int64_t> indices = {0, 1, 2, 3};
  return fixture.under_every_attention([&](const NamedAttention& attention, const NamedData& data) {
    const auto model = fixture.model({*data.dataset, attention.build});
    const Batch batch = in_double(batch_of(*data.dataset, indices));
    expect_same_examples(*data.dataset, indices, *model, outputs_of(*model, batch), batch);
  });
}

std::string check_padding(const ModelFixture& fixture) {
  const std::vector<std::int64_t> indices = {0, 1, 2, 3};
  std::vector<std::string> ignored;
  bool padded = false;
  std::string remark = fixture.under_every_attention([&](const NamedAttention& attention,
                                                         const NamedData& data) {
    const auto model = fixture.model({*data.dataset, attention.build});
    const Batch batch = in_double(batch_of(*data.dataset, indices));
    DisturbedBatch uneven = with_garbage_in_padding(*data.dataset, indices);
    if (uneven.anything) {
      padded = true;
      expect_same_examples(*data.dataset, indices, *model, outputs_of(*model, uneven.batch), batch);
    }
    for (const std::string& name : masked_fields(*data.dataset, batch)) {
      DisturbedBatch masked{batch};
      disturb(masked, data.dataset->info(), name, batch.fields.at(name + "_valid"));
      if (!masked.anything) continue;
      if (!reads_mask(fixture, batch, name + "_valid")) {
        if (std::find(ignored.begin(), ignored.end(), name) == ignored.end()) {
          ignored.push_back(name);
        }
        continue;
      }
      padded = true;
      expect_close(fmt::format("other values where {}_valid is false", name),
                   outputs_of(*model, masked.batch), outputs_of(*model, batch));
    }
  });
  const std::string unread =
      ignored.empty()
          ? ""
          : fmt::format(
                "with these options '{}_valid' changes nothing: what it marks counts as content",
                join(ignored, "_valid', '"));
  if (!padded) {
    throw NotApplicable(unread.empty() ? "no example that it takes is padded" : unread);
  }
  return unread.empty() ? remark : fmt::format("{}; {}", remark, unread);
}

std::string check_members(const ModelFixture& fixture) {
  if (!fixture.subject().ensemble) throw NotApplicable("its plugin does not say .ensemble");
  std::string refused;
  const std::string remark =
      fixture.under_every_attention([&](const NamedAttention& attention, const NamedData& data) {
        try {
          compare_members(fixture, attention.build, *data.dataset);
        } catch (const ShapeError& error) {  // of the layer that puts heads side by side
          if (attention.name == fixture.subject().attentions.front().name) throw;
          refused +=
              fmt::format("; refused beside {}, {}: {}", attention.name, data.name, error.what());
        }
      });
  return remark + refused;
}

}  // namespace attnlab::conformance
