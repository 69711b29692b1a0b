#include "framework/conformance/model_fixture.h"

#include <ATen/CPUGeneratorImpl.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <exception>

#include "framework/base/files.h"
#include "framework/base/text.h"
#include "framework/conformance/stack.h"
#include "framework/data/formats/safetensors.h"

namespace attnlab::conformance {
namespace {

constexpr double kParameterNudge = 0.1;

/// Refusals that a model may answer with when it is built.
bool is_refusal(const Error& error) {
  return dynamic_cast<const ConfigError*>(&error) != nullptr ||
         dynamic_cast<const TraitError*>(&error) != nullptr ||
         dynamic_cast<const ShapeError*>(&error) != nullptr ||
         dynamic_cast<const DataError*>(&error) != nullptr;
}

}  // namespace

ModelFixture::ModelFixture(const ModelSubject& subject) : subject_(subject) {
  std::vector<NamedData> candidates;
  if (subject.data != nullptr) {
    candidates.push_back({"the experiment's data", subject.data});
  } else {
    candidates = made_data_for(subject.takes);
  }
  std::exception_ptr refusal;
  for (const NamedData& data : candidates) {
    try {
      fresh({*data.dataset, subject.attentions.at(0).build});
      data_.push_back(data);
    } catch (const Error& error) {
      if (!is_refusal(error)) throw;
      if (!refusal) refusal = std::current_exception();
    }
  }
  if (data_.empty()) std::rethrow_exception(refusal);
}

std::shared_ptr<Model> ModelFixture::fresh(const Build& build) const {
  std::shared_ptr<Model> model;
  with_seed(build.seed, [&] {
    model = subject_.build({build.data.info(), build.attention, build.members});
  });
  expect(model != nullptr, "the factory returned nothing");
  return model;
}

std::shared_ptr<Model> ModelFixture::model(const Build& build) const {
  const std::shared_ptr<Model> model = fresh(build);
  model->to(at::kDouble);
  model->eval();
  nudge(*model, build.seed + 77);
  return model;
}

std::shared_ptr<Model> ModelFixture::model(std::uint64_t seed) const {
  return model({first_data(), subject_.attentions.front().build, seed});
}

std::string ModelFixture::under_every_attention(const UnderAttention& check) const {
  std::vector<std::string> tried, refused;
  for (const NamedAttention& attention : subject_.attentions) {
    bool taken = false;
    for (const NamedData& data : data_) {
      try {
        fresh({*data.dataset, attention.build});
      } catch (const Error& error) {
        if (!is_refusal(error)) throw;
        continue;
      }
      taken = true;
      const std::string where =
          fmt::format("under attention '{}', {}: ", attention.name, data.name);
      try {
        check(attention, data);
      } catch (const Failure& failure) {
        throw Failure(where + failure.what());
      } catch (const TraitError& error) {
        throw Failure(
            fmt::format("{}the model was built, and a forward pass is refused; let its constructor "
                        "ask for the traits, or list them under .needs: {}",
                        where, error.what()));
      }
    }
    (taken ? tried : refused).push_back(attention.name);
  }
  std::string remark = "under " + join(tried, ", ");
  if (!refused.empty()) remark += "; the model refuses " + join(refused, ", ");
  return remark;
}

NamedTensors training_example(const Dataset& data, std::int64_t index) {
  return data.example(Split::train, index % data.size(Split::train), nullptr);
}

Batch batch_of(const Dataset& data, const std::vector<std::int64_t>& indices) {
  std::vector<NamedTensors> examples;
  for (const std::int64_t index : indices) examples.push_back(training_example(data, index));
  return data.collate(examples);
}

Batch in_double(Batch batch) {
  for (const auto& [name, tensor] : NamedTensors(batch.fields)) {
    if (tensor.is_floating_point()) batch.fields.set(name, tensor.to(at::kDouble));
  }
  return batch;
}

NamedTensors outputs_of(Model& model, const Batch& batch) {
  const at::NoGradGuard no_gradients;
  ForwardPass pass;
  return model.forward(batch, pass);
}

NamedTensors seeded_pass(Model& model, const Batch& batch, std::uint64_t seed) {
  NamedTensors outputs;
  with_seed(seed, [&] {
    ForwardPass pass;
    outputs = model.forward(batch, pass);
  });
  return outputs;
}

Tensor rows_of_example(const std::string& name, const Tensor& tensor, const Batch& batch,
                       std::int64_t example) {
  const FieldName parsed = parse_field_name(name);
  if (parsed.axis.empty()) return tensor.narrow(0, example, 1);
  const Tensor& offsets = batch.offsets.at(parsed.axis);
  const auto first = offsets[example].item<std::int64_t>();
  return tensor.narrow(0, first, offsets[example + 1].item<std::int64_t>() - first);
}

void expect_close(const std::string& what, const NamedTensors& found, const NamedTensors& expected,
                  double tolerance) {
  expect(found.size() == expected.size(),
         fmt::format("{}: there are {} outputs, expected {}", what, found.size(), expected.size()));
  for (const auto& [name, tensor] : expected) {
    expect_close(fmt::format("{}: output '{}'", what, name), found.at(name), tensor, tolerance);
  }
}

void expect_identical(const std::string& what, const NamedTensors& found,
                      const NamedTensors& expected) {
  for (const auto& [name, tensor] : expected) {
    expect_identical(fmt::format("{}: output '{}'", what, name), found.at(name), tensor);
  }
}

Tensor probed(const NamedTensors& outputs) {
  Tensor sum = at::zeros({}, at::kDouble);
  for (const auto& [name, tensor] : outputs) {
    if (tensor.is_floating_point()) {
      sum = sum + (tensor.to(at::kDouble) * probe_like(tensor).to(at::kDouble)).sum();
    }
  }
  return sum;
}

std::vector<std::pair<std::string, Tensor>> kept_tensors(const torch::nn::Module& module) {
  std::vector<std::pair<std::string, Tensor>> all;
  for (const auto& item : module.named_parameters()) all.emplace_back(item.key(), item.value());
  for (const auto& item : module.named_buffers()) all.emplace_back(item.key(), item.value());
  return all;
}

void nudge(torch::nn::Module& module, std::uint64_t seed) {
  const at::NoGradGuard no_gradients;
  const Draw draw(seed);
  for (Tensor& parameter : module.parameters()) {
    parameter.add_(draw.normal(parameter.sizes()).to(parameter.options()), kParameterNudge);
  }
}

void save_and_load(const torch::nn::Module& from, torch::nn::Module& to) {
  const ScratchFolder folder;
  TensorFile saved;
  for (const auto& [name, tensor] : kept_tensors(from)) saved.tensors.set(name, tensor.detach());
  write_safetensors(folder.file("saved.safetensors"), saved);
  const TensorFile read = read_safetensors(folder.file("saved.safetensors"));
  const at::NoGradGuard no_gradients;
  const auto targets = kept_tensors(to);
  expect(targets.size() == saved.tensors.size(),
         fmt::format(
             "a second one of the same options has {} parameters and buffers, the saved one {}",
             targets.size(), saved.tensors.size()));
  for (const auto& [name, tensor] : targets) {
    const Tensor* value = read.tensors.find(name);
    expect(value != nullptr && value->sizes() == tensor.sizes(),
           fmt::format("a second one of the same options has '{}' {}, the saved one {}", name,
                       describe(tensor), value == nullptr ? "has none" : describe(*value)));
    Tensor(tensor).copy_(*value);
  }
}

void with_seed(std::uint64_t seed, const std::function<void()>& run) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const Tensor before = generator.get_state();
  generator.set_current_seed(seed);
  try {
    run();
  } catch (...) {
    generator.set_state(before);
    throw;
  }
  generator.set_state(before);
}

}  // namespace attnlab::conformance
