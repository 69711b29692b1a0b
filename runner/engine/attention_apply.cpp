// attnlab attention apply: one mechanism on tensors from outside, so that any other implementation
// can be compared with it.
#include <ATen/ExpandUtils.h>
#include <ATen/OpMathType.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iostream>

#include "framework/base/foreign_text.h"
#include "framework/base/text.h"
#include "framework/data/formats/safetensors.h"
#include "framework/nn/attention/attention_kernel.h"
#include "framework/tensor/narrow.h"
#include "runner/engine/engine.h"
#include "runner/engine/output_path.h"

namespace attnlab {
namespace {

namespace po = boost::program_options;

const std::vector<std::string> kInputs = {
    "q", "k", "v", "mask", "bias", "query_source", "key_source", "value_source"};
const std::string kParameter = "parameters.";

/// The input file. Every refusal names it and the tensor.
struct Source {
  std::string path;
  NamedTensors tensors;

  std::string place(const std::string& name) const {
    return fmt::format("{}: tensor '{}'", path, one_line(name, 100));
  }
  [[noreturn]] void refuse(const std::string& name, const std::string& expected,
                           const Tensor& found) const {
    throw ShapeError(
        fmt::format("{} must be {}, found {}", place(name), expected, describe(found)));
  }
};

std::string sizes_text(at::IntArrayRef sizes) {
  std::vector<std::string> words;
  for (const std::int64_t size : sizes) words.push_back(size < 0 ? "*" : std::to_string(size));
  return fmt::format("[{}]", join(words, ", "));
}

void check_names(const Source& source) {
  for (const auto& [name, tensor] : source.tensors) {
    const bool known = std::find(kInputs.begin(), kInputs.end(), name) != kInputs.end();
    if (known || name.rfind(kParameter, 0) == 0) continue;
    const std::string near = nearest(name, kInputs);
    throw DataError(fmt::format("{} has no meaning here{}; known are {} and {}NAME",
                                source.place(name),
                                near.empty() ? "" : fmt::format("; did you mean '{}'?", near),
                                join(kInputs, ", "), kParameter));
  }
}

void check_finite(const Source& source, const std::string& name, const std::string& remedy) {
  const Tensor& tensor = source.tensors.at(name);
  const std::int64_t others = tensor.isfinite().logical_not().sum().item<std::int64_t>();
  if (others == 0) return;
  throw DataError(fmt::format("{} holds {} of {} numbers that are not finite; {}",
                              source.place(name), others, tensor.numel(), remedy));
}

/// A projection as [B, H, L, C]: [H, L, C] is one example, [L, C] one head of one example.
Tensor projection(const Source& source, const char* name) {
  const Tensor* given = source.tensors.find(name);
  if (given == nullptr) {
    throw DataError(
        fmt::format("{}: has no tensor '{}'; q, k and v are needed", source.path, name));
  }
  const at::ScalarType dtype = given->scalar_type();
  const bool computes = dtype == at::kFloat || dtype == at::kDouble || is_narrow(dtype);
  if (!computes || given->dim() < 2 || given->dim() > 4 || given->numel() == 0) {
    source.refuse(
        name,
        "float32, float64, bfloat16 or float16 of shape [B, H, L, C], [H, L, C] or [L, C], no "
        "size of 0",
        *given);
  }
  check_finite(source, name, "replace them (hidden keys count, too)");
  Tensor whole = *given;
  while (whole.dim() < 4) whole = whole.unsqueeze(0);
  return whole;
}

/// @param sizes  expected; negative: any
void check_like(const Source& source, const char* name, const char* letters, const Tensor& tensor,
                at::IntArrayRef sizes, at::ScalarType dtype) {
  bool fits = tensor.scalar_type() == dtype;
  for (std::int64_t i = 0; i < 4; ++i) fits &= sizes[i] < 0 || tensor.size(i) == sizes[i];
  if (fits) return;
  source.refuse(name,
                fmt::format("{}{} and of the dtype of 'q' ({})", letters, " = " + sizes_text(sizes),
                            describe(source.tensors.at("q"))),
                source.tensors.at(name));
}

/// @param logits  [B, H, Lq, Lk]
void read_mask(const Source& source, at::IntArrayRef logits, AttentionInput& input) {
  const Tensor* mask = source.tensors.find("mask");
  if (mask == nullptr) return;
  const at::ScalarType dtype = mask->scalar_type();
  if ((dtype != at::kBool && dtype != at::kByte) || !at::is_expandable_to(mask->sizes(), logits)) {
    source.refuse(
        "mask",
        "bool or uint8, true = may see, broadcastable to [B, H, Lq, Lk] = " + sizes_text(logits),
        *mask);
  }
  input.visible.pairs = mask->to(at::kBool);
}

void read_bias(const Source& source, at::IntArrayRef logits, AttentionInput& input) {
  const Tensor* bias = source.tensors.find("bias");
  if (bias == nullptr) return;
  if (bias->scalar_type() != input.queries.scalar_type() ||
      !at::is_expandable_to(bias->sizes(), logits)) {
    source.refuse("bias",
                  fmt::format("of the dtype of 'q' ({}) and broadcastable to [B, H, Lq, Lk] = {}",
                              describe(source.tensors.at("q")), sizes_text(logits)),
                  *bias);
  }
  check_finite(source, "bias", "hide keys with 'mask'");
  input.bias = *bias;
}

/// What q, k or v were projected from; undefined where the file does not say.
Tensor read_source(const Source& source, const char* name, std::int64_t length,
                   const AttentionInput& input) {
  const Tensor* given = source.tensors.find(name);
  if (given == nullptr) return {};
  const Tensor whole = given->dim() == 2 ? given->unsqueeze(0) : *given;
  if (whole.dim() != 3 || whole.size(0) != input.batch() || whole.size(1) != length ||
      whole.numel() == 0 || whole.scalar_type() != input.queries.scalar_type()) {
    source.refuse(name,
                  fmt::format("of the dtype of 'q' ({}) and of shape [B, L, C] with B = {}, L = {}",
                              describe(source.tensors.at("q")), input.batch(), length),
                  *given);
  }
  check_finite(source, name, "replace them");
  return whole;
}

AttentionInput read_input(const Source& source) {
  check_names(source);
  AttentionInput input;
  input.queries = projection(source, "q");
  input.keys = projection(source, "k");
  input.values = projection(source, "v");
  const at::ScalarType dtype = input.queries.scalar_type();
  const std::int64_t batch = input.batch(), heads = input.heads(), keys = input.key_count();
  check_like(source, "k", "[B, H, Lk, D]", input.keys, {batch, heads, -1, input.queries.size(3)},
             dtype);
  check_like(source, "v", "[B, H, Lk, Dv]", input.values, {batch, heads, keys, -1}, dtype);
  const std::int64_t logits[] = {batch, heads, input.query_count(), keys};
  read_mask(source, logits, input);
  read_bias(source, logits, input);
  input.query_source = read_source(source, "query_source", input.query_count(), input);
  input.key_source = read_source(source, "key_source", keys, input);
  input.value_source = read_source(source, "value_source", keys, input);
  return input;
}

/// An attention that reads sources gets all three, and no other gets any.
void check_sources(const Source& source, const AttentionInput& input, const Part& part,
                   const Catalogue& catalogue) {
  const auto& traits = catalogue.find(Kind::attention, lookup_name(part)).manifest->traits;
  const auto found = traits.find("sources");
  const bool reads = found != traits.end() && found->second;
  for (const auto& [name, tensor] :
       {std::pair{"query_source", &input.query_source}, std::pair{"key_source", &input.key_source},
        std::pair{"value_source", &input.value_source}}) {
    if (tensor->defined() == reads) continue;
    throw DataError(
        reads ? fmt::format("{}: has no tensor '{}', what the layer projected from, [B, L, C], "
                            "which attention '{}' reads; add it",
                            source.path, name, part.name)
              : fmt::format("{}: attention '{}' does not read it; leave it out", source.place(name),
                            part.name));
  }
}

void check_traits(const Source& source, const AttentionInput& input, const Part& part,
                  const AttentionTraits& traits) {
  const auto need = [&](bool used, bool honoured, const char* trait, const std::string& what) {
    if (!used || honoured) return;
    throw TraitError(
        fmt::format("{}: attention '{}' does not honour '{}', which {}; take another attention, or "
                    "leave that out",
                    source.path, part.name, trait, what));
  };
  need(input.visible.pairs.defined(), traits.pair_mask, "pair_mask", "the tensor 'mask' asks for");
  need(input.bias.defined(), traits.bias, "bias", "the tensor 'bias' asks for");
  need(input.visible.causal, traits.causal, "causal", "--causal asks for");
  need(input.query_count() != input.key_count(), traits.different_lengths, "different_lengths",
       fmt::format("'q' of length {} and 'k' of length {} ask for", input.query_count(),
                   input.key_count()));
}

/// Puts the file's `parameters.<name>` in the place of what the mechanism starts with.
void read_parameters(const Source& source, const Part& part, Attention& attention) {
  const c10::NoGradGuard no_gradients;
  auto parameters = attention.named_parameters();
  for (const auto& [name, tensor] : source.tensors) {
    if (name.rfind(kParameter, 0) != 0) continue;
    Tensor* parameter = parameters.find(name.substr(kParameter.size()));
    if (parameter == nullptr) {
      std::vector<std::string> known;
      for (const auto& item : parameters) {
        known.push_back(fmt::format("{} {}", item.key(), describe(item.value())));
      }
      throw DataError(fmt::format("{}: attention '{}' has no such parameter; it has {}",
                                  source.place(name), part.name,
                                  known.empty() ? "none" : join(known, ", ")));
    }
    if (!tensor.is_floating_point() || tensor.sizes() != parameter->sizes()) {
      source.refuse(name, "floating point of shape " + sizes_text(parameter->sizes()), tensor);
    }
    check_finite(source, name, "replace them");
    parameter->copy_(tensor);
  }
}

Tensor attended(Attention& attention, const AttentionInput& input, const RandomStreams& streams,
                AttentionTrace* trace) {
  at::manual_seed(streams.key("dropout"));  // for a mechanism that draws numbers
  ForwardState state;
  AttentionContext context{0, &state, trace};
  return attention.forward(input, context);
}

/// What the mechanism gives: "out" from the kernel that models get, "weights" and "logits", where
/// it has them, from the explicit form; of the queries' dtype.
NamedTensors outputs_of(Attention& attention, const AttentionInput& input,
                        const RandomStreams& streams) {
  const c10::NoGradGuard no_gradients;
  NamedTensors outputs{{"out", attended(attention, input, streams, nullptr)}};
  set_attention_kernel(AttentionKernel::explicit_form);
  AttentionTrace trace;
  trace.weights = trace.logits = true;
  trace.on_layer = [&](const LayerTrace& layer) {
    const at::ScalarType dtype = input.queries.scalar_type();
    if (layer.weights.defined()) outputs.set("weights", layer.weights.to(dtype));
    if (layer.logits.defined()) outputs.set("logits", layer.logits.to(dtype));
  };
  attended(attention, input, streams, &trace);
  return outputs;
}

/// Without the leading dimensions that the file's own queries lack.
NamedTensors with_dims(const NamedTensors& tensors, std::int64_t dims) {
  NamedTensors all;
  for (const auto& [name, tensor] : tensors) {
    Tensor some = tensor;
    while (some.dim() > dims) some = some.squeeze(0);
    all.set(name, some);
  }
  return all;
}

Usage apply_usage() {
  Usage usage;
  usage.synopsis =
      "attnlab attention apply --use ID [--option KEY=VALUE ...] --in FILE --out FILE\n"
      "       [--causal] [--seed N]";
  usage.about =
      "Computes one attention on the tensors of a safetensors file, in evaluation mode:\n"
      "  q [B, H, Lq, D], k [B, H, Lk, D], v [B, H, Lk, Dv]   float32, float64, bfloat16 or\n"
      "      float16; [H, L, C] is one example, [L, C] one head of one example\n"
      "  mask      optional, bool or uint8, true = may see, broadcastable to [B, H, Lq, Lk]\n"
      "  bias      optional, added to the scaled logits, broadcastable to [B, H, Lq, Lk]\n"
      "  parameters.NAME   optional, in place of what the mechanism learns; an unknown NAME is an\n"
      "      error that lists the known ones\n"
      "and writes out, weights and logits (those that the mechanism has; hidden pairs have the\n"
      "logit -inf), with as many dimensions as q and its dtype; 16-bit numbers are computed in\n"
      "float32 and rounded once. The file appears whole or not at all.";
  usage.options.add_options()("use", po::value<std::string>()->value_name("ID"),
                              "the attention: quest, attnlab/quest")(
      "option", po::value<Words>()->value_name("KEY=VALUE")->multitoken()->composing(),
      "its options, as listed by attnlab describe ID")(
      "in", po::value<std::string>()->value_name("FILE"), "tensors to compute on")(
      "out", po::value<std::string>()->value_name("FILE"), "file to write")(
      "causal", "query i sees keys j <= i + Lk - Lq")(
      "seed", po::value<std::int64_t>()->value_name("N")->default_value(0),
      "seed of the parameters, as in a run with this seed, and of random numbers");
  return usage;
}

/// The command line.
struct ApplyRequest {
  std::string use, in, out;
  Words options;
  bool causal = false;
  std::int64_t seed = 0;
};

ApplyRequest apply_request(const Arguments& arguments, const Usage& usage) {
  const auto needed = [&](const char* option) {
    if (arguments.has(option)) return arguments.text(option, "");
    throw ConfigError(fmt::format("--{} is missing\nusage: {}", option, usage.synopsis));
  };
  ApplyRequest request{needed("use"), needed("in"), needed("out"), {}};
  if (arguments.has("option")) request.options = arguments.options["option"].as<Words>();
  request.causal = arguments.has("causal");
  request.seed = arguments.options["seed"].as<std::int64_t>();
  if (request.seed < 0) {
    throw ConfigError(fmt::format("--seed: expected an integer >= 0, found {}", request.seed));
  }
  std::error_code ignored;
  if (std::filesystem::equivalent(request.in, request.out, ignored)) {
    throw ConfigError(fmt::format("--out: {} is the input file itself; name another", request.out));
  }
  return request;
}

TensorFile result_file(const NamedTensors& outputs, const Part& part, std::int64_t dims,
                       std::int64_t seed) {
  TensorFile file;
  file.tensors = with_dims(outputs, dims);
  file.metadata = {{"attention", part.id},
                   {"options", to_flow(part.options)},
                   {"seed", std::to_string(seed)},
                   {"attnlab", ATTNLAB_VERSION}};
  return file;
}

/// The mechanism for these tensors, ready to attend.
std::shared_ptr<Attention> attention_for(const Source& source, const AttentionInput& input,
                                         const Part& part, const RandomStreams& streams,
                                         Registry& registry) {
  AttentionShape shape;
  shape.heads = input.heads();
  shape.head_dim = input.queries.size(3);
  shape.value_dim = input.values.size(3);
  check_sources(source, input, part, registry.catalogue());
  const auto width = [](const Tensor& x) { return x.defined() ? x.size(2) : 0; };
  shape.query_width = width(input.query_source);
  shape.key_width = width(input.key_source);
  shape.value_width = width(input.value_source);
  auto attention = registry.attention_builder(part, streams)(shape);
  check_traits(source, input, part, attention->traits());
  attention->to(at::toOpMathType(input.queries.scalar_type()));
  attention->eval();
  read_parameters(source, part, *attention);
  return attention;
}

TensorFile apply(const ApplyRequest& request) {
  Registry registry(Catalogue::of_this_program());
  const Part part = part_of(Kind::attention, request.use, options_from(request.options, "--option"),
                            registry.catalogue());
  const Source source{request.in, read_safetensors(request.in).tensors};
  AttentionInput input = read_input(source);
  input.visible.causal = request.causal;
  const RandomStreams streams(static_cast<std::uint64_t>(request.seed));
  const auto attention = attention_for(source, input, part, streams, registry);
  return result_file(outputs_of(*attention, input, streams), part, source.tensors.at("q").dim(),
                     request.seed);
}

}  // namespace

int attention_apply_command(const Words& words) {
  Usage usage = apply_usage();
  const Arguments arguments = parse_arguments(words, usage);
  if (arguments.help) return kDone;
  const ApplyRequest request = apply_request(arguments, usage);
  const OutputPath out(request.out);
  const TensorFile result = apply(request);
  out.write([&](const std::string& path) { write_safetensors(path, result); });
  std::vector<std::string> written;
  for (const auto& [name, tensor] : result.tensors) {
    written.push_back(fmt::format("{} {}", name, describe(tensor)));
  }
  std::cout << request.out << ": " << join(written, ", ") << "\n";
  return kDone;
}

}  // namespace attnlab
