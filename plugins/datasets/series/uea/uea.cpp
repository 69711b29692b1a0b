// UEA: multivariate (and univariate) time series of the UEA, UCR and TSER archives.
//
//   NAME_TRAIN.ts, NAME_TEST.ts        (framework/data/formats/ts_file.h has the format), gzipped
//   or not series = (x - mean_c) / (deviation_c + 2.2e-16)      deviation with n - 1, over all time
//   steps
//
// `normalise: train` takes mean and deviation of the training examples for every split;
// `published` takes each split's own, as the Time-Series-Library does, so that the test split is
// scaled by what only a whole test split tells.
// Source: Bagnall et al. 2018 (arXiv:1811.00075); protocol: thuml/Time-Series-Library, 4e938a17.
// Cost: the series are held in memory as float32.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "framework/base/files.h"
#include "framework/base/text.h"
#include "framework/data/formats/files.h"
#include "framework/data/series/series.h"
#include "framework/plugin.h"
#include "plugins/datasets/series/uea/series_table.h"

namespace attnlab {
namespace {

struct UeaOptions {
  std::string name;
  std::string archive = "uea";
  std::string root;
  std::string normalise = "train";
  bool instance_norm = false;
  std::string missing = "interpolate";
  std::string padding = "batch";
  double validation = 0;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("name", name, required(), "the set, as its files are called: JapaneseVowels");
    v("archive", archive, "folder of the sets below $ATTNLAB_DATA; empty: $ATTNLAB_DATA itself");
    v("root", root, "folder with the files, or the one above it; empty: $ATTNLAB_DATA");
    v("normalise", normalise, one_of("train", "published", "none"),
      "scale each channel by the mean and deviation of the training examples, or of each split as "
      "in the Time-Series-Library");
    v("instance_norm", instance_norm,
      "then normalise each series, as that library does for EthanolConcentration: subtract its "
      "mean over time, divide by the deviation across channels");
    v("missing", missing, one_of("interpolate", "mean", "refuse"),
      "how missing values are filled: along time, or by the channel's mean");
    v("padding", padding, one_of("batch", "maximum", "published"),
      "series of unequal length: padded to the longest of a batch or of the set, with the field "
      "`valid` as a mask; published: to the longest of the set, and zeros count as values");
    v("validation", validation, range(0, 0.9), "share of each class's training series held out");
  }
};

std::string path_of(const std::string& folder, const UeaOptions& options, const char* part) {
  return with_or_without_gz(fmt::format("{}/{}_{}.ts", folder, options.name, part));
}

std::string find_folder(const UeaOptions& options) {
  if (options.name.empty() || options.name.find('/') != std::string::npos) {
    throw OptionError(
        "name",
        fmt::format(
            "expected the name of a set, as its files are called (JapaneseVowels), found '{}'",
            options.name));
  }
  DataSearch search;
  const bool below = options.root.empty() && !options.archive.empty();
  search.name = (below ? options.archive + "/" : "") + options.name;
  search.files = {options.name + "_TRAIN.ts", options.name + "_TEST.ts"};
  search.root = options.root;
  search.hint = fmt::format("fetch {} in .ts format from https://www.timeseriesclassification.com",
                            options.name);
  return find_data_folder(search);
}

/// Refuses what two files of one set cannot differ in; the test split's labels become the indices
/// of the training split's classes.
void match_files(const std::string& train_path, const TsFile& train, const std::string& test_path,
                 TsFile& test) {
  const auto refuse = [&](const std::string& what) {
    throw DataError(
        fmt::format("{}: {}; the files of a set belong together: {}", test_path, what, train_path));
  };
  if (test.channels != train.channels) {
    refuse(fmt::format("has {} channels, the training file {}", test.channels, train.channels));
  }
  if (test.has_targets != train.has_targets || test.classes.empty() != train.classes.empty()) {
    refuse("has other labels than the training file (@classLabel, @targetLabel)");
  }
  for (std::int64_t& label : test.labels) {
    const std::string& name = test.classes[std::size_t(label)];
    const auto found = std::find(train.classes.begin(), train.classes.end(), name);
    if (found == train.classes.end()) {
      refuse(fmt::format("the class '{}' is not one of the training file's{}", name,
                         suggestion(name, train.classes)));
    }
    label = found - train.classes.begin();
  }
}

void refuse_missing(const std::string& path, const TsFile& file) {
  const auto missing = std::count_if(file.values.begin(), file.values.end(),
                                     [](float value) { return std::isnan(value); });
  std::int64_t lacking = 0;
  for (std::int64_t i = 0; i < file.cases(); ++i) {
    for (std::int64_t c = 0; c < file.channels; ++c) lacking += file.length(i, c) < file.length(i);
  }
  if (missing + lacking == 0) return;
  throw DataError(
      fmt::format("{}: {} values are missing and {} channels are shorter than their case; set the "
                  "option `missing` to interpolate or mean, or repair the file",
                  path, missing, lacking));
}

class Uea final : public Dataset {
 public:
  Uea(const UeaOptions& options, const DatasetSetup& setup) : options_(options) {
    const std::string folder = find_folder(options);
    const std::string paths[] = {path_of(folder, options, "TRAIN"),
                                 path_of(folder, options, "TEST")};
    const std::string train_bytes = read_data_file(paths[0]), test_bytes = read_data_file(paths[1]);
    TsFile train = parse_ts(train_bytes, paths[0]), test = parse_ts(test_bytes, paths[1]);
    match_files(paths[0], train, paths[1], test);
    if (options.missing == "refuse") {
      refuse_missing(paths[0], train);
      refuse_missing(paths[1], test);
    }
    info_.class_names = train.classes;
    has_targets_ = train.has_targets;
    train_ = table_of(std::move(train), paths[0]);
    test_ = table_of(std::move(test), paths[1]);
    split(setup.streams);
    scale();
    describe_set(folder, content_fingerprint(test_bytes, content_fingerprint(train_bytes)));
  }

  const DatasetInfo& info() const override { return info_; }

  std::int64_t size(Split split) const override {
    return static_cast<std::int64_t>(cases(split).size());
  }

  NamedTensors make_example(Split split, std::int64_t index, Random*) const override {
    const SeriesTable& table = split == Split::test ? test_ : train_;
    const std::int64_t i = cases(split)[std::size_t(index)], length = table.length(i);
    NamedTensors fields = {
        {"series", table.values.narrow(0, table.offsets[std::size_t(i)], length).clone()},
        {"length", at::scalar_tensor(length, at::kLong)}};
    if (masked()) fields.set("valid", at::ones({length}, at::kBool));
    if (info_.classes > 0) {
      fields.set("class", at::scalar_tensor(table.labels[std::size_t(i)], at::kLong));
    }
    if (has_targets_) {
      fields.set("target", at::scalar_tensor(table.targets[std::size_t(i)], at::kFloat));
    }
    return unequal_ && options_.padding != "batch" ? padded(fields) : fields;
  }

  Batch collate(const std::vector<NamedTensors>& examples) const override {
    if (!unequal_) return Dataset::collate(examples);
    return collate_series(examples, options_.padding == "batch" ? 0 : longest_);
  }

 private:
  /// An example as long as the longest, as `info()` promises.
  NamedTensors padded(const NamedTensors& fields) const {
    NamedTensors all;
    for (const auto& [name, tensor] : collate_series({fields}, longest_).fields) {
      all.set(name, tensor[0]);
    }
    return all;
  }

  /// Whether batches say which time steps are padding.
  bool masked() const { return unequal_ && options_.padding != "published"; }

  const std::vector<std::int64_t>& cases(Split split) const {
    return split == Split::train ? train_cases_ : split == Split::test ? test_cases_ : held_out_;
  }

  /// Holds out the same share of every class, at least one series of it and never all.
  void split(const RandomStreams& streams) {
    for (std::int64_t i = 0; i < test_.cases(); ++i) test_cases_.push_back(i);
    std::vector<std::vector<std::int64_t>> groups(
        std::max<std::size_t>(1, info_.class_names.size()));
    for (const std::int64_t i : permutation(train_.cases(), streams.stream("split"))) {
      groups[train_.labels.empty() ? 0 : std::size_t(train_.labels[std::size_t(i)])].push_back(i);
    }
    for (const std::vector<std::int64_t>& group : groups) {
      const auto all = static_cast<std::int64_t>(group.size());
      std::int64_t held =
          options_.validation == 0
              ? 0
              : std::max<std::int64_t>(1, std::llround(options_.validation * double(all)));
      held = std::max<std::int64_t>(0, std::min(held, all - 1));
      held_out_.insert(held_out_.end(), group.begin(), group.begin() + held);
      train_cases_.insert(train_cases_.end(), group.begin() + held, group.end());
    }
    if (options_.validation > 0 && held_out_.empty()) {
      throw OptionError(
          "validation",
          "holds out no series: no class has two, of which one could go; set it to 0");
    }
    std::sort(held_out_.begin(), held_out_.end());
    std::sort(train_cases_.begin(), train_cases_.end());
  }

  void scale() {
    if (options_.missing == "interpolate") {
      fill_gaps(train_);
      fill_gaps(test_);
    }
    const bool normalise = options_.normalise != "none";
    const ChannelScale ours = scale_of(train_, train_cases_);
    const ChannelScale theirs =
        options_.normalise == "published" ? scale_of(test_, test_cases_) : ours;
    apply(ours, normalise, train_);
    apply(theirs, normalise, test_);
    if (options_.instance_norm) {
      normalise_instances(train_);
      normalise_instances(test_);
    }
  }

  void describe_set(const std::string& folder, std::uint64_t hash) {
    std::int64_t shortest = train_.length(0);
    for (const SeriesTable* table : {&train_, &test_}) {
      for (std::int64_t i = 0; i < table->cases(); ++i) {
        longest_ = std::max(longest_, table->length(i));
        shortest = std::min(shortest, table->length(i));
      }
    }
    unequal_ = shortest < longest_;
    info_.name = options_.name;
    info_.classes = static_cast<std::int64_t>(info_.class_names.size());
    info_.source = folder;
    info_.fingerprint = hex(hash);
    const bool varies = unequal_ && options_.padding == "batch";
    const std::int64_t length = varies ? -1 : longest_;
    info_.fields = {{"series", {length, train_.values.size(1)}, at::kFloat},
                    {"length", {}, at::kLong}};
    if (masked()) {
      info_.fields.push_back({"valid", {length}, at::kBool});
    }
    if (info_.classes > 0) info_.fields.push_back({"class", {}, at::kLong});
    if (has_targets_) info_.fields.push_back({"target", {}, at::kFloat});
  }

  UeaOptions options_;
  DatasetInfo info_;
  bool has_targets_ = false, unequal_ = false;
  std::int64_t longest_ = 0;
  SeriesTable train_, test_;
  std::vector<std::int64_t> train_cases_, held_out_, test_cases_;
};

}  // namespace

ATTNLAB_PLUGIN(dataset, Uea, UeaOptions,
               {.id = "attnlab/uea",
                .version = "1.0.0",
                .summary = "time series in .ts files: the UEA, UCR and TSER archives",
                .citation = "Bagnall et al., The UEA multivariate time series classification "
                            "archive, 2018, arXiv:1811.00075",
                .licence = "as each set's; the archive is free for research",
                .gives = {"series", "length", "valid?", "class?", "target?"}})

}  // namespace attnlab
