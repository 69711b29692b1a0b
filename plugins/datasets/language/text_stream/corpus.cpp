#include "plugins/datasets/language/text_stream/corpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <numeric>

#include "framework/base/text.h"
#include "framework/data/formats/files.h"
#include "framework/data/formats/folder.h"

namespace attnlab {
namespace {

namespace fs = std::filesystem;

constexpr const char* kHint =
    "put the text's files there (wiki.{train,valid,test}.tokens, {train,valid,test}.txt, or any "
    "file, named by the option `train`)";

/// The files of each split; several where a whole folder is one text.
struct Files {
  std::vector<std::string> train;
  std::string validation, test;
  std::vector<std::string> folders{};  ///< in the one that is one text: they are not read
};

std::string folder_of(const CorpusOptions& options) {
  if (options.name.empty() && options.root.empty()) {
    throw OptionError("name",
                      "say which text: the name of its folder below $ATTNLAB_DATA/text, or the "
                      "option `root`");
  }
  DataSearch search;
  search.name = options.root.empty() ? "text/" + options.name : options.name;
  for (const std::string& file : {options.train, options.validation, options.test}) {
    if (!file.empty() && !fs::path(file).is_absolute()) search.files.push_back(file);
  }
  search.root = options.root;
  search.hint =
      options.train.empty() ? kHint : fmt::format("put {} there", join(search.files, ", "));
  if (!options.name.empty()) {
    search.hint += " (configs/datasets/ says where published texts come from)";
  }
  return find_data_folder(search);
}

/// The first of these names that is there, gzipped or not; empty: none.
std::string first_of(const std::string& folder, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    const std::string path = with_or_without_gz(folder + "/" + name);
    if (fs::exists(path)) return path;
  }
  return "";
}

/// A whole folder as one text. Of one that is there gzipped and not, the latter alone, as
/// `with_or_without_gz` has it.
Files all_files(const std::string& folder) {
  Files files;
  for (const fs::directory_entry& entry : visible_entries(folder)) {
    refuse_link_to_nothing(entry);
    const fs::path& path = entry.path();
    if (entry.is_directory()) files.folders.push_back(path.filename().string());
    const bool again =
        path.extension() == ".gz" && fs::is_regular_file(fs::path(path).replace_extension());
    if (entry.is_regular_file() && !again) files.train.push_back(path.string());
  }
  return files;
}

Files usual_files(const std::string& folder) {
  for (const std::string ending : {"tokens", "raw"}) {  // words of the one are none of the other
    const auto part = [&](const char* name) {
      return first_of(folder, {fmt::format("wiki.{}.{}", name, ending)});
    };
    if (!part("train").empty()) return {{part("train")}, part("valid"), part("test")};
  }
  const std::string train = first_of(folder, {"train.txt"});
  if (train.empty()) return all_files(folder);
  return {{train},
          first_of(folder, {"valid.txt", "val.txt", "validation.txt"}),
          first_of(folder, {"test.txt"})};
}

/// The usual ones where the training text is not named; files that are named take their places.
Files files_of(const std::string& folder, const CorpusOptions& options) {
  const auto path = [&](const std::string& name) {
    return with_or_without_gz((fs::path(folder) / name).string());
  };
  Files files = options.train.empty() ? usual_files(folder) : Files{{path(options.train)}, "", ""};
  if (!options.validation.empty()) files.validation = path(options.validation);
  if (!options.test.empty()) files.test = path(options.test);
  if (files.train.empty()) throw DataMissingError(folder + ": is empty; " + kHint);
  // Of a folder that is read as one text. One that is named for both is meant so: what a model
  // makes of what it was trained on is a question of its own.
  if (files.train.size() > 1) {
    for (const std::string* other : {&files.validation, &files.test}) {
      std::erase_if(files.train, [&](const std::string& text) {
        std::error_code none;
        return fs::equivalent(text, *other, none);
      });
    }
  }
  for (const std::string* other : {&files.validation, &files.test}) {
    std::erase_if(files.folders, [&](const std::string& name) {
      return other->starts_with(fmt::format("{}/{}/", folder, name));
    });
  }
  if (files.train.empty()) {
    throw DataMissingError(folder + ": has no text beside those to validate or test on; " + kHint);
  }
  return files;
}

Text open_all(const std::vector<std::string>& paths) {
  Text text;
  for (const std::string& path : paths) text.push_back(open_text(path));
  return text;
}

void check_shares(const std::vector<double>& shares) {
  const bool positive =
      std::all_of(shares.begin(), shares.end(), [](double share) { return share > 0; });
  if (positive && std::accumulate(shares.begin(), shares.end(), 0.0) <= 1 + 1e-9) return;
  throw OptionError("split", "expected shares above 0 that are at most 1 together");
}

/// Training text alone, cut into all splits.
TextSplits cut_all(const Text& train, TextUnit unit, const std::vector<double>& shares,
                   const std::string& source) {
  if (shares.empty()) {
    throw DataMissingError(source +
                           ": holds no test text; give shares of the training text (split: [0.9, "
                           "0.1]), or " +
                           kHint);
  }
  if (shares.size() != 2 && shares.size() != 3) {
    throw OptionError(
        "split",
        fmt::format(
            "expected the shares of train and test, or of train, validation and test; found {}",
            shares.size()));
  }
  std::vector<Text> parts = cut_text(train, unit, shares);
  if (parts.size() == 2) parts.insert(parts.begin() + 1, Text{});
  return {parts[0], parts[1], parts[2]};
}

TextSplits split_texts(const Files& files, TextUnit unit, const std::vector<double>& shares,
                       const std::string& source) {
  check_shares(shares);
  const Text train = open_all(files.train);
  // Two files are training and test text, whatever the second is called.
  const bool validates = !files.validation.empty() && !files.test.empty();
  const std::string& test = files.test.empty() ? files.validation : files.test;
  if (test.empty()) return cut_all(train, unit, shares, source);
  if (shares.empty()) {
    return {train, validates ? open_all({files.validation}) : Text{}, open_all({test})};
  }
  if (validates || shares.size() != 2) {
    throw OptionError("split", validates ? "the validation text has a file of its own"
                                         : "the test text has a file of its own: expected the "
                                           "shares of train and validation");
  }
  const std::vector<Text> parts = cut_text(train, unit, shares);
  return {parts[0], parts[1], open_all({test})};
}

}  // namespace

Corpus open_corpus(const CorpusOptions& options, TextUnit unit) {
  Corpus corpus;
  std::error_code error;
  Files files;
  if (const std::string root = data_path(options.root); fs::is_regular_file(root, error)) {
    corpus.source = root;
    files.train = {root};
  } else {
    corpus.source = folder_of(options);
    files = files_of(corpus.source, options);
  }
  if (!files.folders.empty()) {
    corpus.left_out = fmt::format("the folders in it: {}", join(files.folders, ", "));
  }
  corpus.name = options.name.empty() ? fs::path(corpus.source).filename().string() : options.name;
  corpus.texts = split_texts(files, unit, options.split, corpus.source);
  return corpus;
}

std::string found_data(const std::string& name, const char* option) {
  std::vector<std::string> places = {data_path(name)};
  const char* const home = std::getenv("ATTNLAB_DATA");
  if (home != nullptr && fs::path(name).is_relative()) {
    places.push_back(fmt::format("{}/{}", home, name));
  }
  for (const std::string& place : places) {
    std::error_code error;
    const std::string path = with_or_without_gz(place);
    if (fs::exists(path, error)) return path;
  }
  throw DataMissingError(fmt::format("'{}' is not here; looked for\n  {}\ncorrect the option `{}`",
                                     name, join(places, "\n  "), option));
}

}  // namespace attnlab
