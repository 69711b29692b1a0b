// CIFAR-10 and CIFAR-100: 32 x 32 colour images, from the official binary records.
//
//   CIFAR-10   label, 3072 pixels (CHW)                    cifar-10-batches-bin
//   CIFAR-100  coarse label, fine label, 3072 pixels       cifar-100-binary
//
// Source: https://www.cs.toronto.edu/~kriz/cifar.html (Krizhevsky 2009). Classes of CIFAR-100 are
// the fine ones. A part of a set is read where the options say so, and never otherwise. Cost: the
// records are held in memory as they are, 3 KiB an image.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "framework/base/text.h"
#include "framework/data/formats/files.h"
#include "framework/data/image/image.h"
#include "framework/plugin.h"

namespace attnlab {
namespace {

struct CifarOptions : ImageSetOptions {
  std::int64_t classes = 10;
  std::vector<std::int64_t> batches = {1, 2, 3, 4, 5};
  bool partial = false;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("classes", classes, range(10, 100), "10 or 100: which of the two datasets");
    v("batches", batches, range(1, 5), "CIFAR-10's training files that are read, by number");
    v("partial", partial, "a file may hold fewer images than the published one");
    ImageSetOptions::describe(v);
  }
};

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

Layout layout_of(const CifarOptions& options) {
  if (options.classes == 10) {
    return {.name = "cifar-10",
            .folder = "cifar-10-batches-bin",
            .train = batch_files(options.batches),
            .test = "test_batch.bin",
            .class_names = "batches.meta.txt",
            .of_train = 10000,
            .labels = {10},
            .mean = {0.4914, 0.4822, 0.4465},
            .deviation = {0.2470, 0.2435, 0.2616}};
  }
  if (options.classes == 100) {
    if (options.batches != CifarOptions().batches) {
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
  throw OptionError("classes", fmt::format("is {}; CIFAR has 10 or 100", options.classes));
}

/// Appends the records of one file.
void append_records(const std::string& path, const Layout& layout, LabelledImages& images) {
  const std::string bytes = read_data_file(path);
  const std::size_t record = layout.record();
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

/// @param count  records of each file, as published
LabelledImages read_split(const std::string& folder, const Layout& layout,
                          const std::vector<std::string>& files, std::size_t count, bool partial) {
  LabelledImages images;
  images.begin = layout.labels.size();
  images.stride = layout.record();
  for (const std::string& file : files) {
    const std::string path = with_or_without_gz(fmt::format("{}/{}", folder, file));
    const std::size_t before = images.labels.size();
    append_records(path, layout, images);
    check_count(path, images.labels.size() - before, count, partial);
  }
  return images;
}

/// The lines of the file of names, which ends with an empty one; none when they do not fit.
std::vector<std::string> read_names(const std::string& path, std::int64_t classes) {
  std::vector<std::string> names;
  if (!std::filesystem::exists(path)) return names;
  std::istringstream lines(read_data_file(path));
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

ImageSet open_set(const CifarOptions& options) {
  const Layout layout = layout_of(options);
  const DataSearch search{
      layout.folder,
      {layout.test},
      options.root,
      fmt::format("unpack the binary version of {} from "
                  "https://www.cs.toronto.edu/~kriz/cifar.html below $ATTNLAB_DATA",
                  layout.name)};
  ImageSet set;
  set.info.name = layout.name;
  set.info.classes = options.classes;
  set.info.source = find_data_folder(search);
  set.info.class_names =
      read_names(fmt::format("{}/{}", set.info.source, layout.class_names), options.classes);
  set.shape = {3, 32, 32};
  set.mean = layout.mean;
  set.deviation = layout.deviation;
  check_files(set.info.source, layout, search.hint);
  set.train = read_split(set.info.source, layout, layout.train, layout.of_train, options.partial);
  set.test = read_split(set.info.source, layout, {layout.test}, kTestRecords, options.partial);
  return set;
}

class Cifar final : public ImageDataset {
 public:
  Cifar(const CifarOptions& options, const DatasetSetup& setup)
      : ImageDataset(open_set(options), options, setup) {}
};

}  // namespace

ATTNLAB_PLUGIN(
    dataset, Cifar, CifarOptions,
    {.id = "attnlab/cifar",
     .version = "1.1.0",
     .summary = "CIFAR-10 and CIFAR-100 from their binary records",
     .citation = "Krizhevsky 2009, Learning Multiple Layers of Features from Tiny Images",
     .licence = "none stated; research use",
     .gives = {"image", "class"}})

}  // namespace attnlab
