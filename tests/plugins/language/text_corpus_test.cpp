// Text streams: layouts, named files, vocabularies, swapped words, the cache, and what is refused.
#include <filesystem>

#include "tests/plugins/language/text_streams.h"
#include "tests/support/cache_folder.h"
#include "tests/support/encodings.h"

namespace attnlab::text_corpus_test {
namespace {

using attnlab::testing::mentions;
using attnlab::testing::says;
using testing::CacheFolder;
using ::testing::HasSubstr;
using testing::list_of;
using testing::make_dataset;
using testing::message_of;
using testing::Numbers;
using testing::TempFolder;

class TextCorpus : public testing::TextFolder {
 protected:
  std::string refusal(const std::string& options) const {
    return message_of<Error>([&] { open(options); });
  }
};

TEST_F(TextCorpus, ReadsThePublishedLayouts) {
  for (const auto& [train, valid, test] :
       {std::array{"wiki.train.tokens", "wiki.valid.tokens", "wiki.test.tokens"},
        std::array{"train.txt", "valid.txt", "test.txt"},
        std::array{"train.txt", "val.txt", "test.txt"}}) {
    const TempFolder own;
    own.write(train, " = A = \n \n a b c d \n");
    own.write(std::string(valid) + ".gz", testing::gzipped("a b\n"));
    own.write(test, "c q\n");
    const auto dataset = make_dataset("text_stream", "{root: " + own.path() + ", window: 2}");
    EXPECT_EQ(dataset->size(Split::train), 3 + 1 + 1 + 4 + 1);
    EXPECT_EQ(dataset->size(Split::validation), 3);
    EXPECT_EQ(dataset->size(Split::test), 3);
    EXPECT_EQ(dataset->info().vocabulary, 8);  // <eos> = A a b c d <unk>
    EXPECT_EQ(dataset->info().unit, "tokens");
  }
}

TEST_F(TextCorpus, ReadsNamedFilesFoldersAndSingleFiles) {
  folder.write("en/one", "12345\n");
  folder.write("en/two", "67890\n");
  folder.write("en/.hidden", "x");
  const auto size = [&](const std::string& options, Split split) {
    return make_dataset("text_stream", "{unit: character, window: 2, " + options + "}")
        ->size(split);
  };
  const std::string en = folder / "en";
  const std::string named = "root: " + en + ", train: one, test: two, min_count: 1, max_size: 5";
  EXPECT_EQ(size(named, Split::train), 6);
  EXPECT_EQ(size(named, Split::test), 6);
  EXPECT_EQ(size(named, Split::validation), 0);
  const std::string all = "root: " + en + ", max_size: 5, split: [0.5, 0.25, 0.25]";
  EXPECT_EQ(size(all, Split::train), 6);
  EXPECT_EQ(size(all, Split::validation), 3);
  EXPECT_EQ(size(all, Split::test), 3);
  EXPECT_EQ(size("root: " + en + "/one, max_size: 2, split: [0.5, 0.5]", Split::test), 3);
  folder.write("en/sub/train.txt", "11\n");
  const std::string own = folder.write("mine", "111\n");
  EXPECT_EQ(size("root: " + en + "/sub, test: " + own, Split::test), 4);
  const std::string held =
      "root: " + en + ", train: one, test: two, max_size: 2, split: [0.5, 0.5]";
  EXPECT_EQ(size(held, Split::validation), 3);
  EXPECT_EQ(size(held, Split::test), 6);
}

TEST_F(TextCorpus, OfAFolderHoldsNothingHiddenAndSaysThatItsFoldersAreNotRead) {
  folder.write("en/one", "12\n12\n");
  for (const char* name : {"en/.hidden", "en/.ipynb_checkpoints/one", "en/Thumbs.db",
                           "en/desktop.ini", "en/__MACOSX/._one"}) {
    folder.write(name, "x");
  }
  const auto source = [&](const std::string& more) {
    const auto dataset =
        make_dataset("text_stream", "{unit: character, window: 2, root: " + folder / "en" + more);
    EXPECT_EQ(dataset->size(Split::train), 3);
    return dataset->info().source;
  };
  EXPECT_EQ(source(", split: [0.5, 0.5]}"), folder / "en");
  folder.write("en/two/a", "67890\n");
  folder.write("en/three/b", "67890\n");
  EXPECT_THAT(source(", split: [0.5, 0.5]}"), says({folder / "en", "folders", "three, two"}));
  std::filesystem::create_symlink("nowhere", folder / "en/link");
  EXPECT_THAT(message_of<Error>([&] { source(", split: [0.5, 0.5]}"); }),
              mentions("en/link:", "link to nothing"));
}

TEST_F(TextCorpus, TrainsOnNoTextThatItTestsOn) {
  folder.write("en/one", "1234\n");
  folder.write("en/two", "4321\n1\n");
  const std::string options = "unit: character, window: 2, root: " + folder / "en" + ", test: two";
  const auto dataset = make_dataset("text_stream", "{" + options + "}");
  EXPECT_EQ(dataset->size(Split::train), 5) << "the folder's other text";
  EXPECT_EQ(dataset->size(Split::test), 7);
  const auto asked = make_dataset("text_stream", "{" + options + ", train: two}");
  EXPECT_EQ(asked->size(Split::train), 7) << "named for both";
}

TEST_F(TextCorpus, TakesWikiTextsOfOneKind) {
  for (const char* part : {"train", "test"}) {
    folder.write(std::string("wiki.") + part + ".tokens", "a b c\n");
    folder.write(std::string("wiki.") + part + ".raw", "a, b, c\n");
  }
  folder.write("wiki.valid.raw", "a, b, c\n");
  EXPECT_EQ(open("window: 2")->size(Split::validation), 0) << "its words are others";
  std::filesystem::remove(folder / "wiki.train.tokens");
  EXPECT_EQ(open("window: 2")->size(Split::validation), 4);
}

TEST_F(TextCorpus, ReadsATextOfAFolderOnceThoughItIsThereGzipped) {
  folder.write("en/one.txt", "12345\n");
  folder.write("en/two.txt.gz", testing::gzipped("67890\n"));
  const auto opened = [&] {
    return make_dataset("text_stream", "{unit: character, window: 2, root: " + folder / "en" +
                                           ", max_size: 5, split: [0.5, 0.5]}");
  };
  const auto before = opened();
  EXPECT_EQ(before->size(Split::train), 6);
  folder.write("en/one.txt.gz", testing::gzipped("12345\n"));
  EXPECT_EQ(opened()->size(Split::train), 6);
  EXPECT_EQ(opened()->info().fingerprint, before->info().fingerprint);
}

TEST_F(TextCorpus, HasTheSameWordsWithByteOrderMarks) {
  const std::vector<std::pair<std::string, std::string>> files = {
      {"train.txt", "a b c a\n"}, {"valid.txt", "c\n"}, {"test.txt", "a b\n"}};
  for (const std::string unit : {"word", "character", "byte"}) {
    const auto opened = [&](const auto& written) {
      for (const auto& [name, text] : files) folder.write(name, written(text));
      return open("window: 2, unit: " + unit);
    };
    const auto plain = opened([](const std::string& text) { return text; });
    const auto with_marks = opened([](const std::string& text) { return testing::marked(text); });
    const auto packed =
        opened([](const std::string& text) { return testing::gzipped(testing::marked(text)); });
    for (const auto& other : {with_marks, packed}) {
      EXPECT_EQ(other->info().vocabulary, plain->info().vocabulary) << unit;
      EXPECT_EQ(other->info().fingerprint, plain->info().fingerprint) << unit;
      for (const Split split : {Split::train, Split::validation, Split::test}) {
        EXPECT_EQ(list_of(other->example(split, 0, nullptr).at("tokens")),
                  list_of(plain->example(split, 0, nullptr).at("tokens")));
      }
    }
  }
}

TEST_F(TextCorpus, LeavesTheMarkOfEachTextOfAFolderOut) {
  for (const char* name : {"en/1", "en/2", "en/3"}) {
    folder.write(name, testing::marked("a a b\n"));
  }
  const auto dataset =
      make_dataset("text_stream", "{window: 2, split: [0.67, 0.33], root: " + folder / "en" + "}");
  EXPECT_EQ(dataset->info().vocabulary, 4) << "<eos> a b <unk>";
}

TEST_F(TextCorpus, NamesUtf16) {
  folder.write("train.txt", "a\n");
  folder.write("test.txt", testing::utf16("a\n"));
  for (const char* unit : {"word", "character"}) {
    EXPECT_THAT(refusal(std::string("window: 1, unit: ") + unit),
                mentions("test.txt:1:", "UTF-16", "iconv -t UTF-8 -f UTF-16", "by byte"));
  }
  EXPECT_EQ(open("window: 1, unit: byte")->size(Split::test), 6);
  folder.write("test.txt", testing::marked(""));
  EXPECT_THAT(refusal("window: 1"), HasSubstr("test.txt: is empty"));
}

TEST_F(TextCorpus, SaysWhatIsMissingOrContradicts) {
  EXPECT_THAT(refusal("window: 4"), mentions("is empty", "files there"));
  EXPECT_THAT(message_of<ConfigError>([] { make_dataset("text_stream"); }),
              HasSubstr("name: say which text"));
  EXPECT_THAT(message_of<DataMissingError>(
                  [] { make_dataset("text_stream", "{name: no-such, train: input.txt}"); }),
              AllOf(HasSubstr("text/no-such"), HasSubstr("put input.txt there"),
                    HasSubstr("configs/datasets/")));
  EXPECT_THAT(message_of<DataMissingError>([] { make_dataset("text_stream", "{name: no-such}"); }),
              HasSubstr("text/no-such"));
  folder.write("train.txt", "a b\nc d\n");
  EXPECT_THAT(refusal("window: 4"), mentions("no test text", "shares"));
  EXPECT_THAT(refusal("split: [0.9]"), mentions("split:", "train and test"));
  EXPECT_THAT(refusal("split: [0.9, 0.2]"), HasSubstr("at most 1 together"));
  EXPECT_THAT(refusal("split: [0.5, 0]"), HasSubstr("above 0"));
  folder.write("test.txt", "a\n");
  EXPECT_THAT(refusal("split: [0.5, 0.2, 0.3]"), HasSubstr("shares of train and validation"));
  folder.write("valid.txt", "a\n");
  EXPECT_THAT(refusal("split: [0.5, 0.5]"), mentions("validation text", "of its own"));
  EXPECT_THAT(refusal("train: train.txt, test: none"), HasSubstr("lacks none"));
  EXPECT_THAT(refusal("test: /no/such/file"), HasSubstr("/no/such/file: cannot read"));
  EXPECT_THAT(refusal("window: 4, stride: 5"), HasSubstr("stride: 5 is above window, 4"));
  EXPECT_THAT(refusal("lines: true, stride: 2"), HasSubstr("lines have none"));
  EXPECT_THAT(refusal("unit: byte, min_count: 2"), HasSubstr("every byte has a token"));
  EXPECT_THAT(refusal("unit: character, split_marks: true"),
              HasSubstr("split_marks: is for words"));
  EXPECT_THAT(refusal("unit: character, vocabulary: x"), HasSubstr("vocabulary: is for words"));
  folder.write("test.txt", "");
  EXPECT_THAT(refusal("window: 4"), HasSubstr("test.txt: is empty"));
  folder.write("test.txt", "x");
  EXPECT_THAT(refusal("unit: byte, window: 4"), mentions("test split", "one token"));
  EXPECT_THAT(refusal("unit: character, window: 4"), HasSubstr("character 'x'"));
  folder.write("test.txt", "a\nb\xFF\n");
  EXPECT_THAT(refusal("window: 4"), HasSubstr("test.txt:2: is not UTF-8"));
  folder.write("test.txt", "PK\x03\x04 and more");
  EXPECT_THAT(refusal("unit: byte, window: 4"), mentions("test.txt:", "archive"));
  folder.write("test.txt", "abc");
  folder.write("train.txt", "abc");
  folder.write("valid.txt", "abc");
  EXPECT_THAT(refusal("unit: character, lines: true"), HasSubstr("has no line ends"));
}

TEST_F(TextCorpus, TakesTheVocabularyOfAFile) {
  folder.write("train.txt", "a b\n");
  folder.write("test.txt", "c\n");
  const std::string words = folder.write("other/vocabulary", "<eos>\n<unk>\nc\nb\n");
  const auto dataset = open("window: 2, vocabulary: " + words);
  EXPECT_EQ(list_of(dataset->example(Split::test, 0, nullptr).at("tokens")), Numbers({2, 0}));
  EXPECT_EQ(list_of(dataset->example(Split::train, 0, nullptr).at("tokens")), Numbers({1, 3}));
}

TEST_F(TextCorpus, SwapsWordsOfInputsAndTargetsInEvaluationAlone) {
  std::string line;
  for (int i = 0; i < 30; ++i) line += "word" + std::to_string(i) + " ";
  folder.write("train.txt", line + "\n");
  folder.write("test.txt", line + "\n" + line + "\n");
  const auto clean = open("window: 31"), swapped = open("window: 31, word_swap: 0.5", 4);
  const auto again = open("window: 31, word_swap: 0.5", 4),
             other = open("window: 31, word_swap: 0.5", 5);
  const auto tokens = [](const Dataset& dataset, Split split, const char* field) {
    return dataset.example(split, 0, nullptr).at(field);
  };
  EXPECT_TRUE(
      tokens(*swapped, Split::train, "tokens").equal(tokens(*clean, Split::train, "tokens")));
  for (const char* field : {"tokens", "targets"}) {
    const Tensor before = tokens(*clean, Split::test, field),
                 now = tokens(*swapped, Split::test, field);
    const Tensor changed = now.ne(before);
    const auto count = changed.sum().item<std::int64_t>();
    // 14 or 15 of 30; the first word is not a target, but the first one of the next line is.
    EXPECT_GE(count, 13) << field;
    EXPECT_LE(count, 16) << field;
    const auto unknown = dynamic_cast<const TextCodec&>(*clean->codec()).encode("AAA").at(0);
    EXPECT_TRUE(now.masked_select(changed).eq(unknown).all().item<bool>());
    EXPECT_TRUE(tokens(*again, Split::test, field).equal(now));
    EXPECT_FALSE(tokens(*other, Split::test, field).equal(now));
  }
  EXPECT_NE(swapped->info().fingerprint, clean->info().fingerprint);
  EXPECT_EQ(swapped->size(Split::test), clean->size(Split::test));
}

TEST_F(TextCorpus, KeepsLargeTextsInACache) {
  std::string text;
  while (text.size() < (std::size_t{17} << 20)) text += "some words of a line that is not long\n";
  folder.write("train.txt", text);
  folder.write("test.txt", "some words\n");
  const CacheFolder kept;
  const std::string cache = kept.folder() / "attnlab/text";
  const auto first = open("window: 50");
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(cache))
    files.push_back(entry.path());
  ASSERT_EQ(files.size(), 1U);
  const auto written = std::filesystem::last_write_time(files[0]);
  const auto second = open("window: 50");
  EXPECT_EQ(std::filesystem::last_write_time(files[0]), written);
  EXPECT_EQ(second->info().fingerprint, first->info().fingerprint);
  EXPECT_EQ(second->size(Split::train), std::int64_t(text.size() / 38 * 10));
  EXPECT_TRUE(second->example(Split::train, 12345, nullptr)
                  .at("tokens")
                  .equal(first->example(Split::train, 12345, nullptr).at("tokens")));
  open("window: 50, min_count: 2");  // other tokens, another file
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(cache), {}), 2);
  // A configuration may be a stranger's: it chooses no place to write to.
  open("window: 50, min_count: 3, cache: " + (folder / "chosen"));
  EXPECT_FALSE(std::filesystem::exists(folder / "chosen"));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(cache), {}), 3);
}

/// Published texts, where this machine has them.
class PublishedText : public ::testing::Test {
 protected:
  /// @returns null where the text is not here
  static std::shared_ptr<Dataset> open(const std::string& options) {
    try {
      return make_dataset("text_stream", options);
    } catch (const DataMissingError&) {
      return nullptr;
    }
  }
};

TEST_F(PublishedText, TinyShakespeareHasTheTokensOfNanoGpt) {
  const auto dataset = open(
      "{name: tinyshakespeare, train: input.txt, unit: character, split: [0.9, 0.1], window: 64}");
  if (dataset == nullptr) GTEST_SKIP() << "the text is not on this machine";
  EXPECT_EQ(dataset->info().vocabulary, 65);
  EXPECT_EQ(dataset->size(Split::train), 1003854);
  EXPECT_EQ(dataset->size(Split::test), 111540);
  const auto* codec = dataset->codec();
  EXPECT_EQ(codec->encode("hii there"), Numbers({46, 47, 47, 1, 58, 46, 43, 56, 43}));
}

TEST_F(PublishedText, WikiText2HasThePublishedNumberOfTokens) {
  // 217,646 with <eos>; words counted as Python counts them.
  const auto dataset = open("{name: wikitext2, train: valid.txt, test: valid.txt, window: 64}");
  if (dataset == nullptr) GTEST_SKIP() << "the text is not on this machine";
  EXPECT_EQ(dataset->size(Split::test), 217646);
  EXPECT_EQ(dataset->info().vocabulary, 13777);
  EXPECT_EQ(dataset->codec()->encode("\nthe <unk> , ."), Numbers({0, 1, 2, 3, 4}));
}

}  // namespace
}  // namespace attnlab::text_corpus_test
