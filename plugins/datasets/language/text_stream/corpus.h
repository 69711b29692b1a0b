// Which files a text is read from, and what of them is trained on.
#pragma once

#include "framework/config/options.h"
#include "framework/data/text/encoded_text.h"

namespace attnlab {

struct CorpusOptions {
  std::string name, root;
  std::string train, validation, test;
  std::vector<double> split;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("name", name, "folder of the text below $ATTNLAB_DATA/text: wikitext-103");
    v("root", root, "the folder with the files, or a file; empty: look for `name`");
    v("train", train,
      "file of the training text; empty: wiki.train.tokens, wiki.train.raw or train.txt, with "
      "their validation and test files; else all files of the folder as one text");
    v("validation", validation, "file of the validation text, in the folder or with a whole path");
    v("test", test, "file of the test text, likewise");
    v("split", split, range(0, 1),
      "shares of the training file, in order: of train and test, or of train, validation and test; "
      "where there is a test file, of train and validation");
  }
};

struct Corpus {
  std::string name;
  std::string source;    ///< the folder, or the file
  std::string left_out;  ///< "the folders in it: a, b"; empty: nothing
  TextSplits texts;
};

/// @throws DataMissingError, DataError for empty files, OptionError for options that contradict.
Corpus open_corpus(const CorpusOptions& options, TextUnit unit);

/// A file or folder as it is named, or below $ATTNLAB_DATA.
/// @param option  that names it
/// @throws DataMissingError with every place.
std::string found_data(const std::string& name, const char* option);

}  // namespace attnlab
