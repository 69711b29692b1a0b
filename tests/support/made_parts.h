// A folder of made-up plugins that fit together, and experiments of them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "framework/experiment/experiment.h"
#include "tests/support/compositions.h"

namespace attnlab::testing {

/// Attentions standard and quest (option eps; no causal masks), models vit (of images) and lm (of
/// tokens; needs causal masks), task sorting (of logits by class), datasets pictures and texts.
class MadeParts {
 public:
  MadeParts() : catalogue_(make()) {}

  const TempFolder& folder() const { return folder_; }
  const Catalogue& catalogue() const { return catalogue_; }

  /// Resolves a composition. @throws ConfigError.
  Experiment resolve(const std::string& yaml) const {
    Node composed = parse_yaml(yaml, "f.yaml");
    interpolate(composed);
    return resolve_experiment(composed, catalogue_, "made");
  }

 private:
  Catalogue make() const {
    const auto list = [](const char* text) { return nlohmann::json::parse(text); };
    const auto write = [&](Kind kind, const std::string& name, nlohmann::json members) {
      nlohmann::json manifest = made_manifest(kind, name);
      manifest.update(members);
      write_plugin(folder_, "plugins/" + name + ".so", manifest);
    };
    write(Kind::attention, "standard", {{"traits", {{"causal", true}}}});
    write(Kind::attention, "quest",
          {{"traits", {{"causal", false}}},
           {"options", list(R"([{"name": "eps", "type": "float", "low": 0, "high": 1,
                                 "default": 1e-12, "help": "floor"}])")}});
    write(Kind::model, "vit",
          {{"takes", {"image"}},
           {"gives", {"logits"}},
           {"options", list(R"([{"name": "dim", "type": "int", "low": 1, "default": 64, "help": ""},
                                {"name": "note", "type": "string", "default": "", "help": ""},
                                {"name": "rates", "type": "float", "list": true, "default": [0.5],
                                 "help": ""}])")}});
    write(Kind::model, "lm", {{"takes", {"tokens"}}, {"gives", {"logits"}}, {"needs", {"causal"}}});
    write(Kind::task, "sorting",
          {{"takes", {"logits", "class"}},
           {"options", list(R"([{"name": "smoothing", "type": "float", "low": 0, "high": 1,
                                 "default": 0, "help": ""}])")}});
    write(
        Kind::dataset, "pictures",
        {{"gives", {"image", "class"}},
         {"options", list(R"([{"name": "root", "type": "string", "default": "", "help": ""}])")}});
    write(Kind::dataset, "texts", {{"gives", {"tokens", "class"}}});
    return catalogue_of(folder_ / "plugins");
  }

  TempFolder folder_;
  Catalogue catalogue_;
};

/// Tests with them; they are written once a program.
class WithMadeParts : public ::testing::Test {
 protected:
  static const MadeParts& parts() {
    static const MadeParts kParts;
    return kParts;
  }
};

inline const std::string kImages =
    "schema: 1\nmodel: {use: vit}\nattention: {use: quest}\ntask: {use: sorting}\n"
    "dataset: {use: pictures}\n";

}  // namespace attnlab::testing
