// Checks of how an attention behaves: what it remembers, writes to, records and costs, and whether
// it stays finite.
#include <ATen/record_function.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <cmath>

#include "framework/base/text.h"
#include "framework/conformance/checks.h"
#include "framework/conformance/memory.h"
#include "framework/host/process_state.h"
#include "framework/nn/attention/dot_product_attention.h"

namespace attnlab::conformance {
namespace {

/// Factors of queries and keys that bring the largest |q k| / sqrt(D) to 10 000.
StackInput with_logits_of_ten_thousand(const StackInput& input, bool queries, bool keys) {
  return changed(input, [&](AttentionInput& in) {
    const Tensor logits = at::matmul(in.queries, in.keys.transpose(-2, -1));
    const double largest = logits.abs().max().item<double>() / 2;  // sqrt(D) is 2
    const double factor = 1e4 / largest;
    const double share = queries && keys ? std::sqrt(factor) : factor;
    if (queries) in.queries = in.queries * share;
    if (keys) in.keys = in.keys * share;
  });
}

/// The numbers of elements of the largest tensor that an operation gives on this thread.
class LargestTensor {
 public:
  LargestTensor()
      : handle_(
            at::addThreadLocalCallback(at::RecordFunctionCallback(nullptr, &LargestTensor::on_end)
                                           .needsOutputs(true)
                                           .scopes({at::RecordScope::FUNCTION}))) {
    largest = 0;
  }
  ~LargestTensor() { at::removeCallback(handle_); }
  LargestTensor(const LargestTensor&) = delete;
  LargestTensor& operator=(const LargestTensor&) = delete;

  std::int64_t elements() const { return largest; }

 private:
  static void on_end(const at::RecordFunction& function, at::ObserverContext*) {
    for (const c10::IValue& value : function.outputs()) {
      if (!value.isTensor() || !value.toTensor().defined()) continue;
      const Tensor& tensor = value.toTensor();
      if (!tensor.has_storage()) continue;
      // An expanded tensor is as large as what it stores.
      const auto stored = static_cast<std::int64_t>(tensor.storage().nbytes() / tensor.itemsize());
      largest = std::max(largest, std::min(tensor.numel(), stored));
    }
  }

  static thread_local std::int64_t largest;
  at::CallbackHandle handle_;
};
thread_local std::int64_t LargestTensor::largest = 0;

std::int64_t largest_tensor(const Fixture& fixture, const Stack& stack, std::int64_t length,
                            bool causal) {
  const StackInput input = changed(to(fixture.input({1, length, length}), at::kFloat),
                                   [&](AttentionInput& in) { in.visible.causal = causal; });
  const LargestTensor seen;
  run_with_gradients(stack, input);
  return seen.elements();
}

struct Recorded {
  Pass pass;
  AttentionTrace trace;
};

Recorded traced(const Stack& stack, const StackInput& input) {
  Recorded recorded;
  AttentionTrace& trace = recorded.trace;
  trace.weights = trace.logits = trace.norms = trace.entropy = true;
  recorded.pass = run_with_gradients(stack, input, {}, &trace);
  return recorded;
}

void expect_trace_shape(const std::string& what, const Tensor& tensor,
                        std::vector<std::int64_t> sizes) {
  if (!tensor.defined()) return;
  expect(tensor.sizes() == at::IntArrayRef(sizes),
         fmt::format("{} is {}, expected {}", what, describe(tensor),
                     describe(at::empty(sizes, tensor.options()))));
  expect(!tensor.requires_grad(), what + " carries a graph; detach what is recorded");
}

/// bool, broadcastable to the logits: pairs that the trace must show as hidden.
Tensor hidden_pairs(const AttentionInput& in) {
  const Tensor visible =
      visible_pairs(in.visible, in.query_count(), in.key_count(), in.queries.device());
  return visible.defined() ? visible.logical_not() : at::zeros({1}, at::kBool);
}

/// A record against the input and the output that it belongs to.
void expect_truthful(const std::string& what, const LayerTrace& seen, const AttentionInput& in,
                     const Tensor& out, std::int64_t layer) {
  const std::int64_t b = in.batch(), h = in.heads(), q = in.query_count(), k = in.key_count();
  expect(seen.layer == layer, fmt::format("{} calls itself layer {}", what, seen.layer));
  expect_trace_shape(what + ": weights", seen.weights, {b, h, q, k});
  expect_trace_shape(what + ": logits", seen.logits, {b, h, q, k});
  expect_trace_shape(what + ": query_norms", seen.query_norms, {b, h, q});
  expect_trace_shape(what + ": key_norms", seen.key_norms, {b, h, k});
  expect_trace_shape(what + ": entropy", seen.entropy, {b, h, q});
  const Tensor hidden = hidden_pairs(in);
  if (seen.weights.defined()) {
    Tensor product = at::matmul(seen.weights, in.values);
    const Tensor& asking = in.visible.query_valid;
    if (asking.defined()) {
      product = product.masked_fill(asking.logical_not().unsqueeze(1).unsqueeze(-1), 0);
    }
    expect_close(what + ": weights times values, against the output", product, out);
    expect_zero(what + ": weights of hidden pairs",
                seen.weights.masked_fill(hidden.logical_not(), 0));
  }
  if (seen.logits.defined()) {
    expect(seen.logits.masked_select(hidden.expand_as(seen.logits)).isneginf().all().item<bool>(),
           what + ": logits of hidden pairs are not all -inf");
    expect_finite(what + ": logits of visible pairs", seen.logits.masked_fill(hidden, 0));
  }
  if (seen.query_norms.defined()) {
    expect_close(what + ": query_norms", seen.query_norms, in.queries.norm(2, -1));
  }
  if (seen.key_norms.defined()) {
    expect_close(what + ": key_norms", seen.key_norms, in.keys.norm(2, -1));
  }
  if (seen.entropy.defined() && seen.weights.defined() && seen.weights.ge(0).all().item<bool>()) {
    expect_close(what + ": entropy", seen.entropy, -at::xlogy(seen.weights, seen.weights).sum(-1));
  }
}

void expect_only_what_is_asked(const Stack& stack, const StackInput& input) {
  AttentionTrace nothing;
  stack(input, &nothing);
  for (const LayerTrace& seen : nothing.layers) {
    for (const Tensor* tensor :
         {&seen.weights, &seen.logits, &seen.query_norms, &seen.key_norms, &seen.entropy}) {
      expect(!tensor->defined(),
             "a trace that asks for nothing holds a tensor " + describe(*tensor));
    }
  }
  AttentionTrace handed;
  handed.weights = handed.logits = handed.norms = handed.entropy = true;
  std::vector<std::int64_t> layers;
  handed.on_layer = [&](const LayerTrace& seen) { layers.push_back(seen.layer); };
  stack(input, &handed);
  expect(handed.layers.empty() && layers == std::vector<std::int64_t>{0, 1},
         fmt::format("a trace with on_layer: called {} times for two layers, and {} records "
                     "gathered, expected 2 and 0",
                     layers.size(), handed.layers.size()));
}

/// Every tensor of an input, as it was.
std::vector<std::pair<std::string, Tensor>> copies(StackInput& input) {
  std::vector<std::pair<std::string, Tensor>> all;
  for (int layer = 0; layer < 2; ++layer) {
    for (const NamedField& field : fields(input[layer])) {
      all.emplace_back(fmt::format("layer {}: {}", layer, field.name),
                       field.tensor->detach().clone());
    }
  }
  return all;
}

void expect_unwritten(const Stack& stack, const NamedStackInput& named, bool record) {
  StackInput input = named.input;
  const auto before = copies(input);
  const auto compare = [&](const std::string& what) {
    const auto after = copies(input);
    for (std::size_t i = 0; i < before.size(); ++i) {
      expect_identical(what + before[i].first, after[i].second, before[i].second);
    }
  };
  // Autograd may refuse to go back over what was written to, without its name.
  const Outputs shapes = stack(input);
  compare(named.name + ", after forward: ");
  const Outputs probes = {probe_like(shapes[0]), probe_like(shapes[1])};
  const Outputs probes_before = {probes[0].clone(), probes[1].clone()};
  AttentionTrace trace;
  trace.weights = trace.logits = trace.norms = trace.entropy = true;
  run_with_gradients(stack, input, probes, record ? &trace : nullptr);
  const std::string what = named.name + ", after forward and backward: ";
  compare(what);
  for (int layer = 0; layer < 2; ++layer) {
    expect_identical(fmt::format("{}the gradient that came in, layer {}", what, layer),
                     probes[layer], probes_before[layer]);
  }
}

}  // namespace

std::string check_state(const Fixture& fixture) {
  const StackInput first = fixture.input({3, 5, 5}, 7), second = fixture.input({2, 4, 4}, 8);
  const Outputs expected = fixture.stack()(second);
  const Stack used = fixture.stack();
  used(first);
  expect_close("a pass after another one, against the same pass alone", used(second), expected);
  used.train(true);
  run_with_gradients(used, first);
  used.train(false);
  expect_close("a pass after a training pass, against the same pass alone", used(second), expected);

  // Two passes side by side, as two threads or two stacks of one module might have them.
  const Stack stack = fixture.stack();
  ForwardState one, other;
  stack.run(0, second[0], &one);
  stack.run(0, first[0], &other);
  expect_close("layer 1, with layer 0 of another pass in between (keep it in ForwardState)",
               stack.run(1, second[1], &one), expected[1]);
  expect_close("layer 0 without a ForwardState, against a fresh one",
               stack.run(0, second[0], nullptr), expected[0]);
  expect_finite("layer 1 without a ForwardState", stack.run(1, second[1], nullptr));
  return "";
}

std::string check_large_logits(const Fixture& fixture) {
  const std::pair<bool, bool> grown[] = {{true, true}, {true, false}, {false, true}};
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    const Stack stack = fixture.stack();
    stack.to(dtype);
    for (const auto& [queries, keys] : grown) {
      const std::string who = queries && keys ? "queries and keys" : queries ? "queries" : "keys";
      for (const NamedStackInput& named : fixture.inputs({2, 6, 6})) {
        const StackInput input = with_logits_of_ten_thousand(named.input, queries, keys);
        expect_finite(fmt::format("{}, {} grown until |q k| / sqrt(D) is 10000 ({})", named.name,
                                  who, dtype == at::kFloat ? "float32" : "float64"),
                      run_with_gradients(stack, to(input, dtype)));
      }
    }
  }
  return "";
}

std::string check_single_token(const Fixture& fixture) {
  for (const at::ScalarType dtype : {at::kDouble, at::kFloat}) {
    const Stack stack = fixture.stack();
    stack.to(dtype);
    for (const std::int64_t batch : {1, 2}) {
      const Lengths one{batch, 1, 1};
      const std::string what = "one token, " + text_of(one);
      const StackInput input = to(fixture.input(one), dtype);
      const Pass plain = run_with_gradients(stack, input);
      expect_finite(what, plain);
      for (int layer = 0; layer < 2; ++layer) {
        expect(plain.outputs[layer].sizes() == input[layer].values.sizes(),
               fmt::format("{}: output is {}", what, describe(plain.outputs[layer])));
      }
      // With one token, no rule of order hides anything.
      const auto causal = [](AttentionInput& in) { in.visible.causal = true; };
      const auto window = [](AttentionInput& in) { in.visible.window = 1; };
      if (fixture.declares().causal && !fixture.refuses(changed(fixture.input(one), causal))) {
        expect_close(what + ", causal, against not", stack(changed(input, causal)), plain.outputs);
      }
      if (fixture.declares().window) {
        expect_close(what + ", window 1, against none", stack(changed(input, window)),
                     plain.outputs);
      }
    }
  }
  return "";
}

std::string check_trace(const Fixture& fixture) {
  const Stack stack = fixture.stack();
  std::string lacking;
  for (const Lengths& lengths : fixture.lengths()) {
    for (const NamedStackInput& named : fixture.inputs(lengths)) {
      const Pass plain = run_with_gradients(stack, named.input);
      const Recorded recorded = traced(stack, named.input);
      expect_close(named.name + ", traced, against not", recorded.pass, plain);
      expect(
          recorded.trace.layers.size() == 2,
          fmt::format("{}: two layers left {} records", named.name, recorded.trace.layers.size()));
      for (int layer = 0; layer < 2; ++layer) {
        const LayerTrace& seen = recorded.trace.layers[layer];
        expect_truthful(fmt::format("{}, trace of layer {}", named.name, layer), seen,
                        named.input[layer], plain.outputs[layer], layer);
        if (!seen.weights.defined()) lacking = "it records no weights";
      }
    }
  }
  expect_only_what_is_asked(stack, fixture.input({2, 4, 4}));
  return lacking;
}

std::string check_linear_cost(const Fixture& fixture) {
  fixture.need(&AttentionTraits::linear_cost);
  const Stack stack = fixture.fresh_stack(Fixture::shape());
  stack.train(false);
  for (const bool causal : {false, true}) {
    if (causal ? !fixture.declares().causal : fixture.declares().ordered) continue;
    const std::int64_t at_512 = largest_tensor(fixture, stack, 512, causal);
    const std::int64_t at_2048 = largest_tensor(fixture, stack, 2048, causal);
    expect(at_2048 <= 5 * at_512, fmt::format("{}the largest tensor has {} elements at n = 512 and "
                                              "{} at n = 2048: it grows faster than n",
                                              causal ? "causal: " : "", at_512, at_2048));
  }
  return "";
}

std::string check_inputs_unchanged(const Fixture& fixture) {
  const Stack stack = fixture.stack();
  for (const NamedStackInput& named : fixture.inputs({1, 6, 6})) {
    expect_unwritten(stack, named, false);
    const bool ragged = named.input[0].visible.ragged();  // cannot be traced
    if (!ragged) expect_unwritten(stack, named, true);
  }
  return "";
}

std::string check_process_state(const Fixture& fixture) {
  const ProcessState before;
  const bool gradients = at::GradMode::is_enabled();
  const Stack stack = fixture.stack();
  const StackInput input = fixture.input({2, 4, 4});
  for (const bool training : {false, true}) {
    stack.train(training);
    run_with_gradients(stack, input);
    std::vector<std::string> changes = before.changes();
    if (at::GradMode::is_enabled() != gradients) changes.emplace_back("autograd's mode");
    expect(changes.empty(),
           fmt::format("a forward and backward pass in {}, without dropout, changes {}",
                       training ? "training" : "evaluation", join(changes, " and ")));
  }
  return "";
}

std::string check_memory(const Fixture& fixture) {
  const Stack stack = fixture.stack();
  const StackInput input = fixture.input({2, 4, 4});
  stack.train(true);
  expect_no_leak("a forward and backward pass", [&] { run_with_gradients(stack, input); });
  stack.train(false);
  const at::NoGradGuard no_gradients;
  expect_no_leak("a forward pass in evaluation", [&] { stack(input); });
  return "";
}

}  // namespace attnlab::conformance
