// Checks of how a model behaves: random numbers, modes, what it keeps and what it leaves alone.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include "framework/base/text.h"
#include "framework/conformance/memory.h"
#include "framework/conformance/model_checks.h"
#include "framework/host/process_state.h"

namespace attnlab::conformance {
namespace {

/// Whether two passes gave the same bits.
bool identical(const NamedTensors& a, const NamedTensors& b) {
  for (const auto& [name, tensor] : a) {
    if (!tensor.equal(b.at(name))) return false;
  }
  return true;
}

}  // namespace

std::string check_determinism(const ModelFixture& fixture) {
  const auto model = fixture.model(), twin = fixture.model();
  const auto kept = kept_tensors(*model), kept_by_twin = kept_tensors(*twin);
  expect(kept.size() == kept_by_twin.size(), "two models of one seed differ in their parameters");
  for (std::size_t i = 0; i < kept.size(); ++i) {
    expect(
        kept[i].first == kept_by_twin[i].first,
        fmt::format(
            "parameter '{}' is '{}' in a second model: names must not change from one to the next",
            kept[i].first, kept_by_twin[i].first));
    expect_identical("a second model of the same seed: " + kept[i].first, kept_by_twin[i].second,
                     kept[i].second);
  }
  const Batch batch = in_double(batch_of(fixture.first_data(), {0, 1, 2}));
  const NamedTensors first = outputs_of(*model, batch);
  outputs_of(*model, in_double(batch_of(fixture.first_data(), {4, 5})));
  expect_identical("the same batch, with another one between", outputs_of(*model, batch), first);
  ForwardPass pass;
  expect_close("with gradients, against without", model->forward(batch, pass), first);
  return "";
}

std::string check_modes(const ModelFixture& fixture) {
  const auto model = fixture.model();
  const Batch batch = in_double(batch_of(fixture.first_data(), {0, 1, 2, 3}));
  const NamedTensors evaluated = seeded_pass(*model, batch, 1);
  expect_identical("in evaluation, with another seed", seeded_pass(*model, batch, 2), evaluated);
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const Tensor before = generator.get_state();
  outputs_of(*model, batch);
  expect(generator.get_state().equal(before),
         "in evaluation it draws from LibTorch's random numbers, which moves those of training");
  std::vector<Tensor> buffers;  // training may move them: running statistics
  for (const Tensor& buffer : model->buffers()) buffers.push_back(buffer.clone());
  model->train();
  const NamedTensors trained = seeded_pass(*model, batch, 1);
  expect_identical("in training, the same seed twice", seeded_pass(*model, batch, 1), trained);
  const bool random = !identical(seeded_pass(*model, batch, 2), trained);
  model->eval();
  const at::NoGradGuard no_gradients;
  for (std::size_t i = 0; i < buffers.size(); ++i) model->buffers()[i].copy_(buffers[i]);
  expect_identical("in evaluation after training, with the buffers from before it",
                   seeded_pass(*model, batch, 1), evaluated);
  return random ? "" : "nothing is drawn in training with these options";
}

std::string check_save_and_load(const ModelFixture& fixture) {
  const auto used = fixture.model(1), other = fixture.model(2);
  used->train();
  for (const std::uint64_t seed : {4, 5}) {
    seeded_pass(*used, in_double(batch_of(fixture.first_data(), {3, 4, 5})), seed);
  }
  used->eval();
  save_and_load(*used, *other);
  const Batch batch = in_double(batch_of(fixture.first_data(), {0, 1, 2}));
  expect_close("a fresh model with the parameters and buffers of a used one",
               outputs_of(*other, batch), outputs_of(*used, batch), kExact);
  return "";
}

std::string check_inputs_unchanged(const ModelFixture& fixture) {
  for (const NamedData& data : fixture.data()) {
    const auto model = fixture.model({*data.dataset, fixture.subject().attentions[0].build});
    const Batch batch = in_double(batch_of(*data.dataset, {0, 1, 2}));
    Batch copy = batch;
    for (const auto& [name, tensor] : batch.fields) copy.fields.set(name, tensor.clone());
    for (const bool training : {false, true}) {
      model->train(training);
      probed(seeded_pass(*model, batch, 1)).backward();
      expect(batch.fields.size() == copy.fields.size(), data.name + ": fields came or went");
      for (const auto& [name, tensor] : copy.fields) {
        expect_identical(fmt::format("{}: after a pass, the batch's field '{}'", data.name, name),
                         batch.fields.at(name), tensor);
      }
    }
  }
  return "";
}

std::string check_device(const ModelFixture& fixture) {
  if (!at::hasCUDA()) {
    throw Skipped("this machine, or this LibTorch, has no other device than the CPU");
  }
  const at::Device gpu(at::kCUDA, 0);
  for (const NamedData& data : fixture.data()) {
    const auto here = fixture.model({*data.dataset, fixture.subject().attentions[0].build});
    const auto there = fixture.model({*data.dataset, fixture.subject().attentions[0].build});
    there->to(gpu);
    const Batch batch = in_double(batch_of(*data.dataset, {0, 1, 2}));
    const NamedTensors outputs = outputs_of(*there, to_device(batch, gpu));
    for (const auto& [name, tensor] : outputs) {
      expect(tensor.device() == gpu,
             fmt::format("{}: output '{}' is on {}, the batch on {}", data.name, name,
                         tensor.device().str(), gpu.str()));
    }
    expect_close(data.name + " on CUDA, against the CPU", outputs, outputs_of(*here, batch));
  }
  return "";
}

std::string check_process_state(const ModelFixture& fixture) {
  const auto model = fixture.model();
  const Batch batch = in_double(batch_of(fixture.first_data(), {0, 1, 2}));
  for (const bool training : {false, true}) {
    model->train(training);
    const ProcessState before;
    const bool gradients = at::GradMode::is_enabled();
    probed(seeded_pass(*model, batch, 1)).backward();
    std::vector<std::string> changes = before.changes();
    if (at::GradMode::is_enabled() != gradients) changes.emplace_back("autograd's mode");
    expect(changes.empty(),
           fmt::format("a forward and backward pass in {} changes {}",
                       training ? "training" : "evaluation", join(changes, " and ")));
  }
  return "";
}

std::string check_memory(const ModelFixture& fixture) {
  const auto model = fixture.model();
  const Batch batch = in_double(batch_of(fixture.first_data(), {0, 1, 2}));
  model->train();
  expect_no_leak("a forward and backward pass",
                 [&] { probed(seeded_pass(*model, batch, 1)).backward(); });
  model->eval();
  expect_no_leak("a forward pass in evaluation", [&] { outputs_of(*model, batch); });
  return "";
}

}  // namespace attnlab::conformance
