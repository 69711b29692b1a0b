// Datasets in Python files: a class with __len__ and __getitem__, an object for each split.
//
// Examples are asked for one at a time, whatever the number of loading threads: Python's lock is
// held for each, and a class may read from a file of its own without thinking of threads. Threads
// still load while the model computes in C++.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "framework/base/files.h"
#include "framework/experiment/identity.h"
#include "framework/manifest/python_file.h"
#include "plugins/python/parts.h"

namespace attnlab::python {
namespace {

constexpr std::array<Split, 3> kSplits = {Split::train, Split::validation, Split::test};

at::ScalarType dtype_of(const std::string& name) {
  static const std::map<std::string, at::ScalarType> all = {
      {"float64", at::kDouble},    {"float32", at::kFloat}, {"float16", at::kHalf},
      {"bfloat16", at::kBFloat16}, {"int64", at::kLong},    {"int32", at::kInt},
      {"int16", at::kShort},       {"int8", at::kChar},     {"uint8", at::kByte},
      {"bool", at::kBool}};
  const auto found = all.find(name);
  if (found == all.end()) {
    throw DataError(fmt::format("a field of dtype {} cannot be in a batch; make it float32", name));
  }
  return found->second;
}

class PythonDataset final : public Dataset {
 public:
  /// @param hosted  attnlab._host.HostedDataset
  /// @param data    what its fingerprint counts beside what the class says of its data
  PythonDataset(Shared hosted, const std::string& name, const std::string& file,
                const std::string& data)
      : hosted_(std::move(hosted)) {
    const py::object self = py::reinterpret_borrow<py::object>(handle(hosted_));
    checked_ = shared(self.attr("checked"));
    const py::dict sizes = self.attr("sizes");
    for (const Split split : kSplits) {
      sizes_[static_cast<std::size_t>(split)] =
          sizes[std::string(name_of(split)).c_str()].cast<std::int64_t>();
    }
    info_.name = name;
    info_.source = file;
    for (const py::handle item : self.attr("fields").cast<py::list>()) {
      const auto field = py::reinterpret_borrow<py::tuple>(item);
      info_.fields.push_back({field[0].cast<std::string>(),
                              field[1].cast<std::vector<std::int64_t>>(),
                              dtype_of(field[2].cast<std::string>())});
    }
    const py::object describe = self.attr("described_self");
    const py::object said = ask<ConfigError>(describe);
    info_.classes = said["classes"].cast<std::int64_t>();
    info_.class_names = said["class_names"].cast<std::vector<std::string>>();
    info_.vocabulary = said["vocabulary"].cast<std::int64_t>();
    info_.fingerprint = hex(fingerprint(data + ";" + said["fingerprint"].cast<std::string>()));
  }

  const DatasetInfo& info() const override { return info_; }
  std::int64_t size(Split split) const override {
    return sizes_.at(static_cast<std::size_t>(split));
  }

 protected:
  NamedTensors make_example(Split split, std::int64_t index, Random* augmentation) const override {
    const std::lock_guard one_at_a_time(mutex_);  // before the other lock: Python never takes it
    const Lock lock;
    py::object random = py::none();
    if (augmentation != nullptr) random = py::int_((*augmentation)());
    const std::string name(name_of(split));
    const py::dict given = ask<DataError>(handle(checked_), name, index, random);
    NamedTensors example;
    for (const auto& [field, tensor] : given) {
      example.set(field.cast<std::string>(), to_tensor(tensor));
    }
    return example;
  }

 private:
  Shared hosted_, checked_;
  DatasetInfo info_;
  std::array<std::int64_t, 3> sizes_{};
  mutable std::mutex mutex_;
};

}  // namespace

std::shared_ptr<Dataset> build_dataset(const Node& section, const DatasetSetup& setup) {
  const std::string file = section.at("file").text(), name = section.at("class").text();
  const PythonFile& text = python_file({file, name}, Kind::dataset);
  start();
  const Lock lock;
  const py::object said = read_class(file, name, Kind::dataset);
  const auto own = said["class"].cast<std::string>();
  const auto given = said["constructor"].cast<std::vector<std::string>>();
  const bool seeded = std::find(given.begin(), given.end(), "seed") != given.end();
  const Node* options = section.find("options");
  const std::string data = fmt::format("{};{};{};{}", text.contents, own,
                                       options == nullptr ? "" : canonical_text(*options),
                                       seeded ? std::to_string(setup.streams.seed()) : "");
  static const py::handle kOpen = host("open_dataset");
  Shared hosted =
      shared(ask<ConfigError>(kOpen, file, said, options_of(section), setup.streams.seed()));
  return std::make_shared<PythonDataset>(std::move(hosted), own, file, data);
}

}  // namespace attnlab::python
