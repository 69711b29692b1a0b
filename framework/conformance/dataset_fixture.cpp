#include "framework/conformance/dataset_fixture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

namespace attnlab::conformance {
namespace {

/// The folder that a text begins with; empty where it begins with a file or a word.
/// @param root  a folder also where its name is a single word
std::string folder_at_start(const std::string& text, const std::string& root) {
  for (std::size_t end = text.size(); end != std::string::npos && end > 0;) {
    const std::string place = text.substr(0, end);
    // A first word may be the name of some folder here by chance.
    const bool meant = end == text.size() || place == root || place.find('/') != std::string::npos;
    std::error_code error;
    if (meant && std::filesystem::exists(place, error)) {
      return std::filesystem::is_directory(place, error) ? place : "";
    }
    end = text.find_last_of(" ,;:(", end - 1);
  }
  return "";
}

}  // namespace

std::string place_of(Split split, std::int64_t index) {
  return fmt::format("{} example {}", name_of(split), index);
}

std::vector<std::int64_t> sample(const Dataset& dataset, Split split, std::int64_t most) {
  const std::int64_t size = dataset.size(split), count = std::min(size, most);
  std::vector<std::int64_t> indices;
  for (std::int64_t i = 0; i < count; ++i) {
    indices.push_back(count == 1 ? 0 : i * (size - 1) / (count - 1));
  }
  return indices;
}

NamedTensors example_of(const Dataset& dataset, Split split, std::int64_t index, bool augmented) {
  Random random(static_cast<std::uint64_t>(index) * 1000003 + 17);
  return dataset.example(split, index, augmented ? &random : nullptr);
}

bool same(const NamedTensors& a, const NamedTensors& b) {
  if (a.size() != b.size()) return false;
  return std::all_of(a.begin(), a.end(), [&](const auto& item) {
    const Tensor* other = b.find(item.first);
    if (other == nullptr || !other->defined() || !item.second.defined()) return false;
    const Tensor left = item.second.contiguous(), right = other->contiguous();
    return left.dtype() == right.dtype() && left.sizes() == right.sizes() &&
           (left.nbytes() == 0 ||
            std::memcmp(left.data_ptr(), right.data_ptr(), left.nbytes()) == 0);
  });
}

void expect_same(const std::string& what, const NamedTensors& found, const NamedTensors& expected) {
  for (const auto& [name, tensor] : expected) {
    const Tensor* other = found.find(name);
    expect(other != nullptr, fmt::format("{} lacks the field '{}'", what, name));
    expect_identical(fmt::format("{}, field '{}'", what, name), *other, tensor);
  }
  for (const auto& [name, tensor] : found) {
    expect(expected.find(name) != nullptr, fmt::format("{} has a field '{}' too many", what, name));
  }
}

NamedTensors copy_of(const NamedTensors& tensors) {
  NamedTensors copies;
  for (const auto& [name, tensor] : tensors) copies.set(name, tensor.clone());
  return copies;
}

NamedTensors without_padding(const std::string& what, const Batch& part, const Batch& alone,
                             const DatasetInfo& info) {
  NamedTensors cut;
  for (const auto& [name, tensor] : part.fields) {
    const Tensor* own = alone.fields.find(name);
    expect(own != nullptr,
           fmt::format("{}: the batch of it alone lacks the field '{}'", what, name));
    const FieldInfo& field = info.field(name);
    Tensor rows = tensor;
    // A field without an axis has one dimension more in a batch than in an example.
    const std::int64_t more = parse_field_name(name).axis.empty() ? 1 : 0;
    const bool fits = rows.dim() == own->dim() &&
                      rows.dim() == static_cast<std::int64_t>(field.shape.size()) + more;
    for (std::int64_t d = more; fits && d < rows.dim(); ++d) {
      const bool varies = field.shape[static_cast<std::size_t>(d - more)] == -1;
      if (varies && rows.size(d) > own->size(d)) rows = rows.narrow(d, 0, own->size(d));
    }
    cut.set(name, rows);
  }
  return cut;
}

const Dataset& DatasetFixture::dataset() const {
  if (dataset_ == nullptr) dataset_ = subject_.open(DatasetSubject::kSeed);
  return *dataset_;
}

std::shared_ptr<const Dataset> DatasetFixture::fresh(std::uint64_t seed) const {
  return subject_.open(seed);
}

std::string DatasetFixture::source_folder() const {
  return subject_.open_folder ? folder_at_start(dataset().info().source, subject_.root) : "";
}

std::string DatasetFixture::folder() const {
  std::string named = source_folder();
  if (!named.empty() || !subject_.open_folder || subject_.root.empty()) return named;
  const std::string& source = dataset().info().source;  // "made by rule of ROOT/name"
  if (const std::size_t at = source.find(subject_.root); at != std::string::npos) {
    named = folder_at_start(source.substr(at), subject_.root);
    if (!named.empty()) return named;
  }
  std::error_code error;
  return std::filesystem::is_directory(subject_.root, error) ? subject_.root : "";
}

}  // namespace attnlab::conformance
