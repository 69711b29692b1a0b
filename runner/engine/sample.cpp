// attnlab sample: text of a trained language model, token by token.
#include <fmt/format.h>

#include <iostream>

#include "framework/eval/token_writer.h"
#include "runner/engine/engine.h"
#include "runner/engine/open_run.h"
#include "runner/usages.h"

namespace attnlab {
namespace {

struct SampleRequest {
  std::string run, prompt;
  std::int64_t tokens = 0, seed = 0;
  SamplingOptions sampling;
};

SampleRequest sample_request(const Arguments& arguments) {
  const auto number = [&](const char* name) {
    const auto value = arguments.options[name].as<std::int64_t>();
    if (value < 0) throw ConfigError(fmt::format("--{}: {} is less than 0", name, value));
    return value;
  };
  SampleRequest request{
      arguments.words[0], arguments.text("prompt", "\n"), number("tokens"), number("seed"), {}};
  request.sampling.temperature = arguments.options["temperature"].as<double>();
  request.sampling.top_k = number("top-k");
  if (!(request.sampling.temperature >= 0 && request.sampling.temperature < 1e6)) {
    throw ConfigError(fmt::format("--temperature: {} is not between 0 and a million",
                                  request.sampling.temperature));
  }
  return request;
}

const TextCodec& codec_of(const BuiltRun& run, const std::string& folder) {
  const TextCodec* codec = run.dataset->codec();
  if (codec != nullptr) return *codec;
  throw ConfigError(fmt::format(
      "{}: dataset '{}' has no text, so there is none to write; take a run of a language model",
      folder, run.experiment.dataset.name));
}

/// Writes each token's text as it comes.
class Printer {
 public:
  explicit Printer(const TextCodec& codec) : codec_(codec) {}
  ~Printer() {
    if (!ends_line_) std::cout << std::endl;
  }

  void print(std::int64_t token) {
    const std::string text = codec_.decode(token, before_);
    before_ = token;
    if (text.empty()) return;
    ends_line_ = text.back() == '\n';
    std::cout << text << std::flush;
  }

 private:
  const TextCodec& codec_;
  std::int64_t before_ = -1;
  bool ends_line_ = true;
};

int write_text(const BuiltRun& run, const SampleRequest& request) {
  const TextCodec& codec = codec_of(run, request.run);
  const std::vector<std::int64_t> prompt = codec.encode(request.prompt);
  if (prompt.empty()) {
    throw ConfigError("--prompt: is empty, and a first token follows something; give it a text");
  }
  const RandomStreams streams(static_cast<std::uint64_t>(request.seed));
  TokenWriter writer(*run.model, run.device, request.sampling, streams.stream("sample"));
  writer.read(prompt);
  Printer printer(codec);
  for (const std::int64_t token : prompt) printer.print(token);
  for (std::int64_t i = 0; i < request.tokens; ++i) {
    if (stop_requested()) return kInterrupted;
    printer.print(writer.next());
  }
  return kDone;
}

}  // namespace

int sample_command(const Words& words) {
  Usage usage = sample_usage();
  const Arguments arguments = parse_arguments(words, usage);
  if (arguments.help) return kDone;
  const SampleRequest request = sample_request(arguments);
  Registry registry(Catalogue::of_this_program());
  const bool accept = arguments.has("accept-changes");
  return write_text(open_run(RunFolder(request.run), registry, accept), request);
}

}  // namespace attnlab
