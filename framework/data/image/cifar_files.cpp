#include "framework/data/image/cifar_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <optional>
#include <sstream>

#include "framework/base/text.h"
#include "framework/data/formats/detail/promised_size.h"
#include "framework/data/formats/encoding.h"
#include "framework/data/formats/files.h"

namespace attnlab {
namespace {

/// What differs between the two datasets.
struct Layout {
  std::string name, folder;
  std::vector<std::string> train;    ///< files
  std::string test, class_names;     ///< files
  std::size_t of_train = 0;          ///< records in each training file, as published
  std::vector<std::int64_t> labels;  ///< how many values each label byte of a record may have
  std::vector<double> mean, deviation;

  std::size_t record() const { return labels.size() + 3072; }
};

constexpr std::size_t kTestRecords = 10000;  // of either set, as published
constexpr std::int64_t kTrainRecords = 50000;

/// "data_batch_1.bin" and so on.
std::vector<std::string> batch_files(const std::vector<std::int64_t>& batches) {
  std::vector<std::string> files;
  for (const std::int64_t number : batches) {
    files.push_back(fmt::format("data_batch_{}.bin", number));
    if (std::count(batches.begin(), batches.end(), number) > 1) {
      throw OptionError("batches", fmt::format("names {} twice", files.back()));
    }
  }
  if (files.empty()) throw OptionError("batches", "names no file to train on; give 1 to 5");
  return files;
}

Layout layout_of(const CifarFiles& files) {
  if (files.classes == 10) {
    return {.name = "cifar-10",
            .folder = "cifar-10-batches-bin",
            .train = batch_files(files.batches),
            .test = "test_batch.bin",
            .class_names = "batches.meta.txt",
            .of_train = 10000,
            .labels = {10},
            .mean = {0.4914, 0.4822, 0.4465},
            .deviation = {0.2470, 0.2435, 0.2616}};
  }
  if (files.classes == 100) {
    if (files.batches != CifarFiles().batches) {
      throw OptionError("batches", "is for classes: 10; CIFAR-100 has one training file");
    }
    return {.name = "cifar-100",
            .folder = "cifar-100-binary",
            .train = {"train.bin"},
            .test = "test.bin",
            .class_names = "fine_label_names.txt",
            .of_train = 50000,
            .labels = {20, 100},
            .mean = {0.5071, 0.4867, 0.4408},
            .deviation = {0.2675, 0.2565, 0.2761}};
  }
  throw OptionError("classes", fmt::format("is {}; CIFAR has 10 or 100", files.classes));
}

/// Appends the records of one file. @param count  of them, as published
void append_records(const std::string& path, const Layout& layout, std::size_t count,
                    LabelledImages& images) {
  const std::size_t record = layout.record();
  const std::string bytes = read_data_file(
      path, [&](std::string_view) { return std::optional<std::uint64_t>(count * record); });
  if (bytes.empty() || bytes.size() % record != 0) {
    throw DataError(
        fmt::format("{}: holds {} bytes, not a whole number of records of {} bytes ({} and {} "
                    "bytes); fetch the file again",
                    path, bytes.size(), record, bytes.size() / record, bytes.size() % record));
  }
  for (std::size_t i = 0; i < bytes.size() / record; ++i) {
    std::uint8_t label = 0;
    for (std::size_t k = 0; k < layout.labels.size(); ++k) {
      label = static_cast<std::uint8_t>(bytes[i * record + k]);
      check_label(path, i, i * record + k, label, layout.labels[k]);
    }
    images.labels.push_back(label);
  }
  images.bytes += bytes;
}

/// A file that holds another number of records than the published one was cut, or is another's.
void check_count(const std::string& path, std::size_t found, std::size_t published, bool partial) {
  if (found == published || (partial && found < published)) return;
  throw DataError(fmt::format(
      "{}: holds {} images, the published file {}; fetch it again{}", path, found, published,
      found < published ? ", or say `partial: true` to take what there is" : ""));
}

/// @param count   records of each file, as published
/// @param number  of a file's first image in the whole set
LabelledImages read_split(const std::string& folder, const Layout& layout,
                          const std::vector<std::string>& files, std::size_t count, bool partial,
                          const std::function<std::int64_t(std::size_t file)>& number) {
  LabelledImages images;
  images.begin = layout.labels.size();
  images.stride = layout.record();
  for (std::size_t i = 0; i < files.size(); ++i) {
    const std::string path = with_or_without_gz(fmt::format("{}/{}", folder, files[i]));
    const std::size_t before = images.labels.size();
    append_records(path, layout, count, images);
    const std::size_t found = images.labels.size() - before;
    check_count(path, found, count, partial);
    for (std::size_t k = 0; k < found; ++k) {
      images.numbers.push_back(number(i) + static_cast<std::int64_t>(k));
    }
  }
  return images;
}

/// The lines of the file of names, which ends with an empty one; none when they do not fit.
std::vector<std::string> read_names(const std::string& path, std::int64_t classes) {
  std::vector<std::string> names;
  if (!std::filesystem::exists(path)) return names;
  std::istringstream lines(std::string(without_mark(read_data_file(path), path)));
  for (std::string line; std::getline(lines, line);) {
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    if (!line.empty()) names.push_back(line);
  }
  if (static_cast<std::int64_t>(names.size()) != classes) {
    throw DataError(fmt::format("{}: names {} classes, not {}; fetch the file again or remove it",
                                path, names.size(), classes));
  }
  return names;
}

/// @throws DataMissingError naming the training files that are not there.
void check_files(const std::string& folder, const Layout& layout, const std::string& hint) {
  std::vector<std::string> missing;
  for (const std::string& file : layout.train) {
    if (!std::filesystem::exists(with_or_without_gz(fmt::format("{}/{}", folder, file)))) {
      missing.push_back(file);
    }
  }
  if (missing.empty()) return;
  const bool some = missing.size() < layout.train.size();
  throw DataMissingError(
      fmt::format("{}: lacks {}; {}{}", folder, join(missing, ", "), hint,
                  some ? ", or name the files to train on: `batches: [1]`" : ""));
}

}  // namespace

ImageSet read_cifar(const CifarFiles& files, const std::string& root) {
  const Layout layout = layout_of(files);
  const DataSearch search{
      layout.folder,
      {layout.test},
      root,
      fmt::format("unpack the binary version of {} from "
                  "https://www.cs.toronto.edu/~kriz/cifar.html below $ATTNLAB_DATA",
                  layout.name)};
  ImageSet set;
  set.info.name = layout.name;
  set.info.classes = files.classes;
  set.info.source = find_data_folder(search);
  set.info.class_names =
      read_names(fmt::format("{}/{}", set.info.source, layout.class_names), files.classes);
  set.shape = {3, 32, 32};
  set.mean = layout.mean;
  set.deviation = layout.deviation;
  check_files(set.info.source, layout, search.hint);
  const auto of_train = [&](std::size_t file) {
    return (files.batches[file] - 1) * static_cast<std::int64_t>(layout.of_train);
  };
  set.train =
      read_split(set.info.source, layout, layout.train, layout.of_train, files.partial, of_train);
  set.test = read_split(set.info.source, layout, {layout.test}, kTestRecords, files.partial,
                        [](std::size_t) { return kTrainRecords; });
  return set;
}

}  // namespace attnlab
