// A problem for tasks that a linear model can solve.
#include <fmt/format.h>

#include <algorithm>

#include "framework/conformance/made_data.h"
#include "framework/conformance/model_fixture.h"
#include "framework/conformance/stack.h"
#include "framework/conformance/task_conformance.h"

namespace attnlab::conformance {
namespace {

constexpr std::int64_t kExamples = 24, kClasses = 5, kFeatures = 8, kTargets = 3;

/// What a task takes, sorted: outputs of the model, labels of the data, and maps from one axis to
/// another.
struct Sides {
  std::vector<std::string> outputs, labels, maps;
};

bool is_output(std::string_view base) {
  return base == "logits" || base == "features" || base == "tokens";
}

Sides sides_of(const std::vector<std::string>& takes) {
  Sides sides;
  for (const std::string& entry : takes) {
    const std::string name = field_of_entry(entry);
    const std::string_view base = parse_field_name(name).base;
    if (is_output(base)) {
      sides.outputs.push_back(name);
    } else if (base == "class" || base == "targets" || base == "label") {
      sides.labels.push_back(name);
    } else if (base == "inverse") {
      sides.maps.push_back(name);
    } else if (entry.find('?') == std::string::npos) {
      throw ConfigError(
          fmt::format("no problem can be made up for what it takes as '{}'; name an experiment "
                      "with a model and data that give it: --experiment FILE",
                      name));
    }
  }
  return sides;
}

/// "x", or "x@node" beside "class@node".
std::string inputs_of(const std::string& name) {
  const std::string_view axis = parse_field_name(name).axis;
  return axis.empty() ? "x" : "x@" + std::string(axis);
}

/// The shape of one example's labels. @param rows  along an axis
std::vector<std::int64_t> rows_of_label(const std::string& label, std::int64_t rows) {
  const FieldName parsed = parse_field_name(label);
  if (!parsed.axis.empty()) return {rows};
  return parsed.base == "targets" ? std::vector<std::int64_t>{kTargets}
                                  : std::vector<std::int64_t>{};
}

class Separable final : public Dataset {
 public:
  explicit Separable(const Sides& sides) : labels_(sides.labels), maps_(sides.maps) {
    info_.name = "a separable problem";
    info_.classes = kClasses;
    for (std::int64_t k = 0; k < kClasses; ++k) info_.class_names.push_back(std::to_string(k));
    info_.source = info_.fingerprint = "made up";
    for (const std::string& map : maps_) {
      info_.fields.push_back({.name = map, .shape = {-1}, .dtype = at::kLong});
    }
    for (const std::string& label : labels_) {
      const std::vector<std::int64_t> shape = rows_of_label(label, -1);
      info_.fields.push_back(
          {.name = label, .shape = shape, .dtype = at::kLong, .categories = kClasses});
      std::vector<std::int64_t> inputs = shape;
      inputs.push_back(kFeatures);
      info_.fields.push_back({.name = inputs_of(label), .shape = inputs});
    }
  }

  const DatasetInfo& info() const override { return info_; }
  std::int64_t size(Split) const override { return kExamples; }

  NamedTensors example(Split split, std::int64_t index, Random*) const override {
    if (index < 0 || index >= kExamples) {
      throw DataError("a separable problem has no example " + std::to_string(index));
    }
    NamedTensors example;
    const Draw draw(static_cast<std::uint64_t>(index + 1000 * static_cast<std::int64_t>(split)));
    // All axes have as many rows, with the same labels: each row stands for its own.
    for (const std::string& map : maps_) example.set(map, at::arange(2 + index % 4));
    for (const std::string& label : labels_) {
      std::vector<std::int64_t> sizes = rows_of_label(label, 2 + index % 4);
      sizes.push_back(kFeatures);
      const Tensor inputs = draw.normal(sizes);
      example.set(label, inputs.narrow(-1, 0, kClasses).argmax(-1));
      example.set(inputs_of(label), inputs.to(at::kFloat));
    }
    return example;
  }

 private:
  std::vector<std::string> labels_, maps_;
  DatasetInfo info_;
};

/// One map from the inputs to each output.
class LinearModel final : public Model {
 public:
  explicit LinearModel(const Sides& sides) {
    for (const std::string& output : sides.outputs) {
      const FieldName parsed = parse_field_name(output);
      const std::int64_t width = parsed.base == "logits" ? kClasses : kFeatures;
      const Tensor start = Draw(7).normal({width, kFeatures}).to(at::kFloat) * 0.1;
      std::string name = output;
      std::replace(name.begin(), name.end(), '@', '_');
      const std::string& label = label_for(parsed, sides);
      maps_.push_back(
          {output, inputs_of(label), rows_of_label(label, -1), register_parameter(name, start)});
    }
  }

  NamedTensors forward(const Batch& batch, ForwardPass&) override {
    NamedTensors outputs;
    for (const Map& map : maps_) {
      outputs.set(map.output, at::linear(batch.fields.at(map.inputs), map.weight));
    }
    return outputs;
  }

  std::vector<FieldInfo> outputs() const override {
    std::vector<FieldInfo> infos;
    for (const Map& map : maps_) {
      std::vector<std::int64_t> shape = map.rows;
      shape.push_back(map.weight.size(0));
      infos.push_back({.name = map.output, .shape = shape, .dtype = map.weight.scalar_type()});
    }
    return infos;
  }

 private:
  struct Map {
    std::string output, inputs;
    std::vector<std::int64_t> rows;  ///< of one example
    Tensor weight;
  };

  /// The label along the output's own axis.
  static const std::string& label_for(const FieldName& output, const Sides& sides) {
    for (const std::string& label : sides.labels) {
      if (parse_field_name(label).axis == output.axis) return label;
    }
    throw ConfigError(
        fmt::format("no problem can be made up for '{}' without labels along the same axis; name "
                    "an experiment: --experiment FILE",
                    output.base));
  }

  std::vector<Map> maps_;
};

}  // namespace

Problem made_problem_for(const std::vector<std::string>& takes) {
  const Sides sides = sides_of(takes);
  return {std::make_shared<Separable>(sides),
          [sides] { return std::make_shared<LinearModel>(sides); }};
}

}  // namespace attnlab::conformance
