#include "plugins/models/graph_gps/encoders.h"

#include <fmt/format.h>

#include <cmath>

#include "framework/nn/graph/segments.h"
#include "framework/nn/kernels/dropout.h"

namespace attnlab {
namespace {

constexpr std::int64_t kDegrees = 64;  // as in Graphormer's code
constexpr double kDegreeStd = 0.02;

const FieldInfo* find_field(const DatasetInfo& data, const std::string& name) {
  for (const FieldInfo& field : data.fields) {
    if (field.name == name) return &field;
  }
  return nullptr;
}

/// The last dimension of a field [rows, C]. @throws ShapeError for another shape.
std::int64_t channels_of(const DatasetInfo& data, const std::string& name) {
  const std::vector<std::int64_t>& shape = data.field(name).shape;
  if (shape.size() == 2 && shape[1] > 0) return shape[1];
  throw ShapeError(fmt::format("graph_gps reads {} as [rows, C]; dataset '{}' gives another shape",
                               name, data.name));
}

class RandomWalks final : public PlaceEncoder {
 public:
  RandomWalks(std::int64_t steps, std::int64_t dim)
      : norm_(register_module("norm", std::make_shared<BatchNorm>(steps))),
        linear_(register_module("linear", std::make_shared<Linear>(steps, dim))) {
    start_uniform(*this);
  }

  Tensor forward(const Batch& batch, at::ScalarType dtype) override {
    return linear_->forward(norm_->forward(batch.fields.at("rwse@node").to(dtype)));
  }

 private:
  std::shared_ptr<BatchNorm> norm_;
  std::shared_ptr<Linear> linear_;
};

class LaplacianVectors final : public PlaceEncoder {
 public:
  explicit LaplacianVectors(std::int64_t dim)
      : in_(register_module("in", std::make_shared<Linear>(2, 2 * dim))),
        out_(register_module("out", std::make_shared<Linear>(2 * dim, dim))) {
    start_uniform(*this);
  }

  Tensor forward(const Batch& batch, at::ScalarType dtype) override {
    Tensor vectors = batch.fields.at("lap_vectors@node").to(dtype);
    if (is_training()) {
      // From LibTorch's generator, as dropout: the step's seed decides.
      const Tensor up = at::empty({vectors.size(1)}, at::kDouble).bernoulli_(0.5);
      vectors = vectors * (2 * up - 1).to(vectors.options());
    }
    const Tensor values = batch.fields.at("lap_values@node").to(dtype);
    const Tensor hidden = in_->forward(at::stack({vectors, values}, -1)).relu_();
    const Tensor valid = batch.fields.at("lap_valid@node").to(dtype).unsqueeze(-1);
    return (out_->forward(hidden).relu_() * valid).sum(1);
  }

 private:
  std::shared_ptr<Linear> in_, out_;
};

}  // namespace

Categories::Categories(const FieldInfo& field, std::int64_t dim) : name_(field.name) {
  if (field.categories <= 0) {
    throw DataError(
        fmt::format("graph_gps: the dataset does not say how many categories {} has", name_));
  }
  const std::int64_t columns = field.shape.size() < 2 ? 1 : field.shape[1];
  Tensor table = at::empty({field.categories, dim});
  if (columns == 1) {
    table.normal_();
  } else {
    const double bound = std::sqrt(6 / (double(field.categories) / double(columns) + double(dim)));
    table.uniform_(-bound, bound);
  }
  table_ = register_parameter("table", table);
}

Tensor Categories::forward(const Tensor& values) const {
  const Tensor columns = values.dim() == 1 ? values.unsqueeze(1) : values;
  const bool readable = columns.device().is_cpu() && columns.numel() > 0;
  if (readable && (columns.min().item<std::int64_t>() < 0 ||
                   columns.max().item<std::int64_t>() >= table_.size(0))) {
    throw DataError(
        fmt::format("{}: the batch has a value that is not 0 to {}", name_, table_.size(0) - 1));
  }
  Tensor chosen =
      at::zeros({columns.size(0), table_.size(0)}, table_.options().requires_grad(false));
  chosen.scatter_(1, columns, 1);
  return at::matmul(chosen, table_);
}

FeatureEncoder::FeatureEncoder(const DatasetInfo& data, const std::vector<std::string>& categorical,
                               const std::string& real, std::int64_t dim, double dropout)
    : real_(real), dropout_(dropout) {
  for (const std::string& name : categorical) {
    const FieldInfo* const field = find_field(data, name);
    if (field == nullptr) continue;
    const std::string base(parse_field_name(name).base);
    tables_.emplace_back(name, register_module(base, std::make_shared<Categories>(*field, dim)));
  }
  if (find_field(data, real) == nullptr) return;
  linear_ = register_module(std::string(parse_field_name(real).base),
                            std::make_shared<Linear>(channels_of(data, real), dim));
  start_uniform(*linear_);
}

Tensor FeatureEncoder::forward(const Batch& batch, at::ScalarType dtype) const {
  Tensor sum;
  const auto add = [&](const Tensor& more) { sum = sum.defined() ? sum + more : more; };
  for (const auto& [name, table] : tables_) add(table->forward(batch.fields.at(name)));
  if (linear_ != nullptr) {
    const Tensor x = batch.fields.at(real_).to(dtype);
    add(linear_->forward(is_training() && dropout_ > 0 ? dropout(x, dropout_) : x));
  }
  return sum;
}

std::shared_ptr<FeatureEncoder> edge_encoder(const GraphGpsOptions& o, const DatasetInfo& data,
                                             std::int64_t width) {
  return o.edge_features
             ? std::make_shared<FeatureEncoder>(
                   data, std::vector<std::string>{"bond@edge", "edge_type@edge"}, "e@edge", width)
             : std::make_shared<FeatureEncoder>(data, std::vector<std::string>{}, "", width);
}

DegreeEncoder::DegreeEncoder(std::int64_t dim)
    : in_(register_parameter("in", at::empty({kDegrees, dim}).normal_(0, kDegreeStd))),
      out_(register_parameter("out", at::empty({kDegrees, dim}).normal_(0, kDegreeStd))) {}

Tensor DegreeEncoder::forward(const Tensor& ends, std::int64_t nodes) const {
  const auto rows = [&](const Tensor& table, std::int64_t end) {
    const Segments edges = segments_by(ends.select(1, end), nodes, "edge");
    const Tensor degrees = edges.offsets.diff().clamp_max(kDegrees - 1);
    return gather_rows(table, segments_by(degrees, kDegrees, "degree"));
  };
  return rows(in_, 1) + rows(out_, 0);
}

std::shared_ptr<PlaceEncoder> make_place_encoder(const GraphGpsOptions& options,
                                                 const DatasetInfo& data) {
  if (options.encoding == "none") return nullptr;
  if (options.encoding_dim >= options.dim) {
    throw OptionError("encoding_dim",
                      fmt::format("{} leaves no channel of dim {} for a node's features",
                                  options.encoding_dim, options.dim));
  }
  if (options.encoding == "rwse") {
    return std::make_shared<RandomWalks>(channels_of(data, "rwse@node"), options.encoding_dim);
  }
  channels_of(data, "lap_vectors@node");
  return std::make_shared<LaplacianVectors>(options.encoding_dim);
}

}  // namespace attnlab
