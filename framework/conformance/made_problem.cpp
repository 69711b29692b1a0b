// A problem for tasks that a linear model can solve.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "framework/conformance/made_data.h"
#include "framework/conformance/model_fixture.h"
#include "framework/conformance/stack.h"
#include "framework/conformance/task_conformance.h"

namespace attnlab::conformance {
namespace {

constexpr std::int64_t kProblemExamples = 24, kProblemClasses = 5, kFeatures = 8, kTargets = 3;

/// What a task takes, sorted: outputs of the model, labels of the data, and maps from one axis to
/// another.
struct TaskFields {
  std::vector<std::string> outputs, labels, maps;
  std::string pairs;  ///< "pairs@pair>node", whose rows "link@pair" speaks of; empty: none
};

bool is_output(std::string_view base) {
  return base == "logits" || base == "features" || base == "tokens" || base == "nll" ||
         base == "forecast";
}

TaskFields fields_taken(const std::vector<std::string>& takes) {
  TaskFields taken;
  for (const std::string& entry : takes) {
    const std::string name = field_of_entry(entry);
    const std::string_view base = parse_field_name(name).base;
    if (is_output(base)) {
      taken.outputs.push_back(name);
    } else if (base == "class" || base == "targets" || base == "label" || base == "labels" ||
               base == "link" || base == "future") {
      taken.labels.push_back(name);
    } else if (base == "inverse") {
      taken.maps.push_back(name);
    } else if (entry.find('?') != std::string::npos) {
      continue;
    } else if (!parse_field_name(name).target.empty()) {
      taken.pairs = name;
    } else {
      throw ConfigError(
          fmt::format("no problem can be made up for what it takes as '{}'; name an experiment "
                      "with a model and data that give it: --experiment FILE",
                      name));
    }
  }
  return taken;
}

/// "x", or "x@node" beside "class@node", and beside "pairs@pair>node" with "link@pair".
std::string inputs_of(const std::string& label, const TaskFields& taken) {
  const FieldName parsed = parse_field_name(label);
  const std::string_view axis =
      parsed.base == "link" ? parse_field_name(taken.pairs).target : parsed.axis;
  return axis.empty() ? "x" : "x@" + std::string(axis);
}

/// The shape of the inputs that one example's label is drawn from, but for the features.
/// @param rows  along an axis
std::vector<std::int64_t> rows_of_inputs(const std::string& label, std::int64_t rows) {
  const FieldName parsed = parse_field_name(label);
  if (!parsed.axis.empty()) return {rows};
  return parsed.base == "targets" || parsed.base == "future" ? std::vector<std::int64_t>{kTargets}
                                                             : std::vector<std::int64_t>{};
}

class Separable final : public Dataset {
 public:
  explicit Separable(const TaskFields& taken) : sides_(taken) {
    info_.name = "a separable problem";
    info_.classes = info_.vocabulary = kProblemClasses;
    for (std::int64_t k = 0; k < kProblemClasses; ++k)
      info_.class_names.push_back(std::to_string(k));
    info_.source = info_.fingerprint = "made up";
    for (const std::string& map : taken.maps) {
      info_.fields.push_back({.name = map, .shape = {-1}, .dtype = at::kLong});
    }
    for (const std::string& label : taken.labels) {
      std::vector<std::int64_t> shape = rows_of_inputs(label, -1);
      const std::string_view base = parse_field_name(label).base;
      if (base == "labels") {
        info_.fields.push_back({.name = label, .shape = {kTargets}});
      } else if (base == "future") {
        info_.fields.push_back({.name = label, .shape = {kTargets, kProblemClasses}});
      } else {
        info_.fields.push_back({.name = label,
                                .shape = shape,
                                .dtype = at::kLong,
                                .categories = base == "link" ? 2 : kProblemClasses});
      }
      if (base == "link") {
        info_.fields.push_back({.name = taken.pairs, .shape = {-1, 2}, .dtype = at::kLong});
      }
      shape.push_back(kFeatures);
      info_.fields.push_back({.name = inputs_of(label, taken), .shape = shape});
    }
  }

  const DatasetInfo& info() const override { return info_; }
  std::int64_t size(Split) const override { return kProblemExamples; }

  NamedTensors make_example(Split split, std::int64_t index, Random*) const override {
    NamedTensors example;
    const Draw draw(static_cast<std::uint64_t>(index + 1000 * static_cast<std::int64_t>(split)));
    // All axes have as many rows, with the same labels: each row stands for its own.
    for (const std::string& map : sides_.maps) example.set(map, at::arange(2 + index % 4));
    for (const std::string& label : sides_.labels) {
      std::vector<std::int64_t> sizes = rows_of_inputs(label, 2 + index % 4);
      sizes.push_back(kFeatures);
      const Tensor inputs = draw.normal(sizes);
      add_label(example, label, inputs, index);
      example.set(inputs_of(label, sides_), inputs.to(at::kFloat));
    }
    return example;
  }

 private:
  /// The largest of the first inputs; of a forecast these themselves; of several numbers, which are
  /// above 0, one of them unknown in some examples; of nodes, which look the same way.
  void add_label(NamedTensors& example, const std::string& label, const Tensor& inputs,
                 std::int64_t index) const {
    const std::string_view base = parse_field_name(label).base;
    if (base == "labels") {
      Tensor answers = inputs.narrow(0, 0, kTargets).gt(0).to(at::kFloat);
      if (index % 5 == 0) answers[index % kTargets] = std::numeric_limits<float>::quiet_NaN();
      example.set(label, answers);
    } else if (base == "future") {
      example.set(label, inputs.narrow(-1, 0, kProblemClasses).to(at::kFloat));
    } else if (base == "link") {
      const std::int64_t nodes = inputs.size(0);
      const Tensor all = at::arange(nodes * nodes, at::kLong);
      const Tensor first = all.floor_divide(nodes), second = all.remainder(nodes);
      const Tensor along = inputs.narrow(1, 0, 2);
      example.set(sides_.pairs, at::stack({first, second}, 1));
      example.set(label, at::matmul(along, along.t()).gt(0.5).to(at::kLong).flatten());
    } else {
      example.set(label, inputs.narrow(-1, 0, kProblemClasses).argmax(-1));
    }
  }

  TaskFields sides_;
  DatasetInfo info_;
};

/// One map from the inputs to each output.
class LinearModel final : public Model {
 public:
  explicit LinearModel(const TaskFields& taken) {
    for (const std::string& output : taken.outputs) {
      const FieldName parsed = parse_field_name(output);
      const std::string& label = label_for(parsed, taken);
      const std::int64_t answers =
          parse_field_name(label).base == "labels" ? kTargets : kProblemClasses;
      const bool nll = parsed.base == "nll";
      const bool answer = nll || parsed.base == "logits" || parsed.base == "forecast";
      const std::int64_t width = answer ? answers : kFeatures;
      const Tensor start = Draw(7).normal({width, kFeatures}).to(at::kFloat) * 0.1;
      std::string name = output;
      std::replace(name.begin(), name.end(), '@', '_');
      maps_.push_back({output, inputs_of(label, taken), nll ? label : "", rows_of_inputs(label, -1),
                       register_parameter(name, start)});
    }
  }

  NamedTensors forward(const Batch& batch, ForwardPass&) override {
    NamedTensors outputs;
    for (const Map& map : maps_) {
      const Tensor y = at::linear(batch.fields.at(map.inputs), map.weight);
      outputs.set(map.output, map.target.empty() ? y : nll_of(y, batch.fields.at(map.target)));
    }
    return outputs;
  }

  std::vector<FieldInfo> outputs() const override {
    std::vector<FieldInfo> infos;
    for (const Map& map : maps_) {
      std::vector<std::int64_t> shape = map.rows;
      if (map.target.empty()) shape.push_back(map.weight.size(0));
      infos.push_back({.name = map.output, .shape = shape, .dtype = map.weight.scalar_type()});
    }
    return infos;
  }

 private:
  struct Map {
    std::string output, inputs;
    std::string target;              ///< whose negative log likelihood it gives; empty: itself
    std::vector<std::int64_t> rows;  ///< of one example
    Tensor weight;
  };

  /// What is not a class counts as one: to refuse it is the task's business.
  static Tensor nll_of(const Tensor& logits, const Tensor& targets) {
    const Tensor known = targets.clamp(0, kProblemClasses - 1).unsqueeze(-1);
    return at::log_softmax(logits, -1).gather(-1, known).squeeze(-1).neg();
  }

  /// The label along the output's own axis, or of pairs of its rows.
  static const std::string& label_for(const FieldName& output, const TaskFields& taken) {
    for (const std::string& label : taken.labels) {
      if (parse_field_name(inputs_of(label, taken)).axis == output.axis) return label;
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
  const TaskFields taken = fields_taken(takes);
  return {std::make_shared<Separable>(taken),
          [taken] { return std::make_shared<LinearModel>(taken); }};
}

}  // namespace attnlab::conformance
