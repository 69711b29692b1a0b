#include "framework/conformance/made_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>

#include "framework/base/add_once.h"
#include "framework/base/text.h"
#include "framework/conformance/stack.h"

namespace attnlab::conformance {
namespace {

constexpr std::int64_t kExamples = 12, kClasses = 5, kVocabulary = 11, kChannels = 4, kLength = 6;
constexpr std::int64_t kSide = 16;    // of an image
constexpr std::int64_t kHorizon = 3;  // of a forecast
/// What `targets` are beside `tokens`: one for each token, some of them not counted.
constexpr const char* kNextTokens = "targets of tokens";

/// One example, as its fields are drawn.
struct Making {
  Draw draw;
  std::int64_t index, length;
};

struct MadeField {
  FieldInfo info;
  std::function<Tensor(const Making&)> make;  ///< empty: collating makes it
};

Tensor whole_numbers(const Making& making, at::IntArrayRef sizes, std::int64_t below) {
  return (making.draw.normal(sizes).abs() * 1000).to(at::kLong).remainder(below);
}

bool is_one_of(std::string_view name, const std::vector<std::string_view>& names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

MadeField categories(const std::string& name, const std::vector<std::int64_t>& shape) {
  return {{.name = name, .shape = shape, .dtype = at::kLong, .categories = kClasses},
          [shape](const Making& making) {
            std::vector<std::int64_t> sizes = shape;
            std::replace(sizes.begin(), sizes.end(), std::int64_t{-1}, making.length);
            return whole_numbers(making, sizes, kClasses);
          }};
}

/// Voxels, each once, some of them neighbours: a row of whole numbers for each.
MadeField places_on_a_grid(const std::string& name) {
  return {{.name = name, .shape = {-1, 3}, .dtype = at::kLong}, [](const Making& making) {
            const Tensor row = at::arange(making.length);
            return at::stack({row.div(2, "floor"), row.remainder(2), row.remainder(3)}, 1);
          }};
}

/// Fields that lie end to end along an axis.
std::optional<MadeField> field_of_axis(const std::string& name, const FieldName& parsed) {
  if (parsed.base == "inverse" && !parsed.target.empty()) {
    return MadeField{{.name = name, .shape = {-1}, .dtype = at::kLong},
                     [](const Making& making) { return at::arange(making.length); }};
  }
  if (parsed.base == "grid") return places_on_a_grid(name);
  if (!parsed.target.empty()) {
    return MadeField{{.name = name, .shape = {-1, 2}, .dtype = at::kLong},
                     [](const Making& making) {
                       return whole_numbers(making, {making.length, 2}, making.length);
                     }};
  }
  if (is_one_of(parsed.base, {"class", "targets", "label", "type", "edge_type"})) {
    return categories(name, {-1});
  }
  if (is_one_of(parsed.base, {"atom", "bond"})) return categories(name, {-1, 2});
  if (parsed.base == "lap_valid") {
    return MadeField{{.name = name, .shape = {-1, kChannels}, .dtype = at::kBool},
                     [](const Making& making) {
                       return making.draw.normal({making.length, kChannels}).gt(-0.5);
                     }};
  }
  if (!is_one_of(parsed.base, {"x", "e", "feature", "features", "positions", "points", "rwse",
                               "lap_vectors", "lap_values"})) {
    return std::nullopt;
  }
  return MadeField{{.name = name, .shape = {-1, kChannels}}, [](const Making& making) {
                     return making.draw.normal({making.length, kChannels}).to(at::kFloat);
                   }};
}

/// Masks of a sequence: made by collating, or true for the first tokens of one of fixed length.
MadeField mask_of(const std::string& name, bool uneven) {
  if (uneven) return {{.name = name, .shape = {-1}, .dtype = at::kBool}, {}};
  return {{.name = name, .shape = {kLength}, .dtype = at::kBool}, [](const Making& making) {
            return at::arange(kLength) < 2 + making.index % (kLength - 2);
          }};
}

std::optional<MadeField> field_of_example(const std::string& name, bool uneven) {
  const std::int64_t length = uneven ? -1 : kLength;
  if (is_one_of(name, {"image", "prompt"})) {
    return MadeField{{.name = name, .shape = {3, kSide, kSide}}, [](const Making& making) {
                       return making.draw.normal({3, kSide, kSide}).to(at::kFloat);
                     }};
  }
  if (is_one_of(name, {"image_valid", "prompt_valid"})) {  // padded below and on the right
    return MadeField{{.name = name, .shape = {kSide, kSide}, .dtype = at::kBool},
                     [](const Making& making) {
                       const Tensor real = at::zeros({kSide, kSide}, at::kBool);
                       real.narrow(0, 0, kSide - 4 * (making.index % 3))
                           .narrow(1, 0, kSide - 4 * (making.index % 2))
                           .fill_(true);
                       return real;
                     }};
  }
  if (is_one_of(name, {"series", "calendar"})) {
    return MadeField{{.name = name, .shape = {length, kChannels}}, [](const Making& making) {
                       return making.draw.normal({making.length, kChannels}).to(at::kFloat);
                     }};
  }
  if (name == "future") {
    return MadeField{{.name = name, .shape = {kHorizon, kChannels}}, [](const Making& making) {
                       return making.draw.normal({kHorizon, kChannels}).to(at::kFloat);
                     }};
  }
  if (is_one_of(name, {"tokens", "condition", "content"})) {
    return MadeField{
        {.name = name, .shape = {length}, .dtype = at::kLong, .categories = kVocabulary},
        [](const Making& making) { return whole_numbers(making, {making.length}, kVocabulary); }};
  }
  if (name == "length") {
    return MadeField{{.name = name, .shape = {}, .dtype = at::kLong},
                     [](const Making& making) { return at::full({}, making.length, at::kLong); }};
  }
  if (name == "valid") {
    return MadeField{{.name = name, .shape = {length}, .dtype = at::kBool},
                     [](const Making& making) { return at::ones({making.length}, at::kBool); }};
  }
  if (is_one_of(name, {"series_valid", "tokens_valid", "condition_valid", "content_valid"})) {
    return mask_of(name, uneven);
  }
  if (name == "class") return categories(name, {});
  if (name == "targets") return categories(name, {1});
  if (name == kNextTokens) {
    return MadeField{
        {.name = "targets", .shape = {length}, .dtype = at::kLong, .categories = kVocabulary},
        [](const Making& making) {
          const Tensor targets = whole_numbers(making, {making.length}, kVocabulary);
          return targets.masked_fill(at::arange(making.length).eq(making.index % 4), -1);
        }};
  }
  return std::nullopt;
}

MadeField made_field(const std::string& name, bool uneven) {
  const FieldName parsed = parse_field_name(name);
  std::optional<MadeField> field =
      parsed.axis.empty() ? field_of_example(name, uneven) : field_of_axis(name, parsed);
  if (field) return *std::move(field);
  throw ConfigError(
      fmt::format("no examples can be made up for the field '{}'; name an experiment with data "
                  "that have it: --experiment FILE",
                  name));
}

/// Examples of one rule for each field.
class MadeExamples final : public Dataset {
 public:
  MadeExamples(const std::vector<std::string>& names, bool uneven) : uneven_(uneven) {
    info_.name = "made-up examples";
    info_.classes = kClasses;
    for (std::int64_t k = 0; k < kClasses; ++k) info_.class_names.push_back(std::to_string(k));
    info_.vocabulary = kVocabulary;
    info_.source = "made up";
    info_.fingerprint = uneven ? "uneven" : "even";
    for (const std::string& name : names) {
      fields_.push_back(made_field(name, uneven));
      info_.fields.push_back(fields_.back().info);
    }
  }

  const DatasetInfo& info() const override { return info_; }
  std::int64_t size(Split) const override { return kExamples; }

  NamedTensors make_example(Split split, std::int64_t index, Random*) const override {
    NamedTensors example;
    for (std::size_t i = 0; i < fields_.size(); ++i) {
      if (!fields_[i].make) continue;
      const auto seed = static_cast<std::uint64_t>(index * 100 + static_cast<std::int64_t>(i)) +
                        10000 * static_cast<std::uint64_t>(split);
      example.set(fields_[i].info.name, fields_[i].make({Draw(seed), index, length_of(index)}));
    }
    return example;
  }

 private:
  std::int64_t length_of(std::int64_t index) const {
    return uneven_ ? 2 + (index * 3) % (kLength - 1) : kLength;  // 2, 5, 3, 6, 4, ...
  }

  bool uneven_;
  DatasetInfo info_;
  std::vector<MadeField> fields_;
};

/// Those taken, and those that data of their kind have beside them.
std::vector<std::string> with_companions(const std::vector<std::string>& takes, bool uneven) {
  std::vector<std::string> names;
  for (const std::string& entry : takes) add_once(names, field_of_entry(entry));
  const auto has = [&](const char* name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  if (!uneven) std::erase(names, "valid");  // nothing is padded
  std::erase(names, "masked");              // of patches, whose number only the model knows
  if (has("series")) {
    add_once(names, "length");
    if (uneven) add_once(names, "valid");
  }
  for (const char* sequence : {"tokens", "condition", "content"}) {
    if (uneven && has(sequence)) add_once(names, std::string(sequence) + "_valid");
  }
  if (has("condition") || has("content")) add_once(names, "targets");
  if (has("tokens")) {
    std::replace(names.begin(), names.end(), std::string("targets"), std::string(kNextTokens));
  }
  add_once(names, "class");
  return names;
}

/// Whether examples of different lengths can be made: of sequences and of rows along an axis.
bool may_differ(const std::vector<std::string>& takes) {
  return std::any_of(takes.begin(), takes.end(), [](const std::string& entry) {
    const std::string name = field_of_entry(entry);
    return name.find('@') != std::string::npos ||
           is_one_of(name, {"series", "tokens", "condition", "content"});
  });
}

}  // namespace

std::string field_of_entry(const std::string& entry) {
  return entry.substr(0, entry.find_first_of("? "));
}

std::vector<NamedData> made_data_for(const std::vector<std::string>& takes) {
  std::vector<NamedData> all = {
      {"made-up examples",
       std::make_shared<MadeExamples>(with_companions(takes, false), /*uneven=*/false)}};
  if (may_differ(takes)) {
    all.push_back({"made-up examples of different lengths",
                   std::make_shared<MadeExamples>(with_companions(takes, true), /*uneven=*/true)});
  }
  return all;
}

}  // namespace attnlab::conformance
