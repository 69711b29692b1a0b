// Questions of benchmarks as examples, and texts by byte pairs.
#include "tests/plugins/language/byte_pair_files.h"
#include "tests/plugins/language/text_streams.h"

namespace attnlab::text_requests_test {
namespace {

using attnlab::testing::mentions;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::list_of;
using testing::make_dataset;
using testing::message_of;
using testing::Numbers;
using testing::PairFiles;

const PairFiles kFiles({{"a", "b"}, {" ", "a"}, {" ", "b"}});

class TextRequests : public ::testing::Test {
 protected:
  TextRequests() { kFiles.write(folder, "pairs"); }

  /// A dataset of questions in the tokens of `kFiles`.
  std::shared_ptr<Dataset> asked(const std::string& form, const std::string& lines,
                                 const std::string& more = ", window: 100") const {
    const std::string file = folder.write("requests.jsonl", lines);
    return make_dataset("text_stream", "{unit: byte_pair, tokenizer: " + folder / "pairs" +
                                           ", form: " + form + ", requests: " + file + more + "}");
  }
  std::string refusal(const std::string& form, const std::string& lines,
                      const std::string& more = ", window: 100") const {
    return message_of<Error>([&] { asked(form, lines, more); });
  }
  /// "context|continuation" of an example.
  static std::string shown(const Dataset& dataset, std::int64_t index) {
    const NamedTensors example = dataset.example(Split::test, index, nullptr);
    const Numbers tokens = list_of(example.at("tokens")), targets = list_of(example.at("targets"));
    std::string text;
    bool within = false;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if (!within) text += dataset.codec()->decode(tokens[i], -1);
      if (targets[i] >= 0 && !within) text += "|";
      within |= targets[i] >= 0;
      EXPECT_EQ(targets[i] >= 0, within) << "targets stand at the end";
      if (within) text += dataset.codec()->decode(targets[i], -1);
      if (within && i + 1 < tokens.size()) {
        EXPECT_EQ(targets[i], tokens[i + 1]);
      }
    }
    return text;
  }
  static Numbers choice(const Dataset& dataset, std::int64_t index) {
    return list_of(dataset.example(Split::test, index, nullptr).at("choice"));
  }

  const testing::TempFolder folder;
};

TEST_F(TextRequests, OfLambadaAreTheLastWords) {
  const auto data =
      asked("lambada", "{\"text\": \"she said no , he\"}\n\n{\"text\": \"one  two\"}\n");
  ASSERT_EQ(data->size(Split::test), 2);
  EXPECT_EQ(data->size(Split::train), 0);
  EXPECT_EQ(shown(*data, 0), "she said no ,| he");
  EXPECT_EQ(shown(*data, 1), "one|  two") << "white space at a context's end belongs to the word";
  EXPECT_EQ(data->example(Split::test, 0, nullptr).find("choice"), nullptr);
}

TEST_F(TextRequests, OfHellaswagAreTheEndingsWithoutMarks) {
  const auto data = asked(
      "hellaswag",
      R"({"activity_label": "Roofing", "ctx_a": "A man sits.", "ctx_b": "he IS", "ctx": "no", )"
      R"("endings": ["climbs [title] Down  [step] now", "éats"], "label": 1})"
      "\n"
      R"({"ctx": "Plain [header] text", "endings": ["a", "b"], "label": "0"})");
  ASSERT_EQ(data->size(Split::test), 4);
  EXPECT_EQ(shown(*data, 0), "Roofing: A man sits. He is| climbs. Down  now");
  EXPECT_EQ(shown(*data, 1), "Roofing: A man sits. He is| éats");
  EXPECT_EQ(shown(*data, 2), "Plain text| a");
  EXPECT_EQ(choice(*data, 0), (Numbers{0, 0, 2, 1, 17}));
  EXPECT_EQ(choice(*data, 1), (Numbers{0, 1, 2, 1, 4})) << "characters, not bytes";
  EXPECT_EQ(choice(*data, 3), (Numbers{1, 1, 2, 0, 1}));
}

TEST_F(TextRequests, OfPiqaHaveTheirLabelsBesideThemOrInAFile) {
  const std::string line = R"({"goal": "open", "sol1": "pull", "sol2": "push")";
  const auto own = asked("piqa", line + ", \"label\": 1}\n");
  EXPECT_EQ(shown(*own, 1), "Question: open\nAnswer:| push");
  EXPECT_EQ(choice(*own, 1), (Numbers{0, 1, 2, 1, 4}));
  const std::string labels = ", window: 100, labels: " + folder.write("labels.lst", "0\n1\n");
  const auto filed = asked("piqa", line + "}\n" + line + "}\n", labels);
  EXPECT_EQ(choice(*filed, 0)[3], 0);
  EXPECT_EQ(choice(*filed, 2)[3], 1);
  for (const std::string& lines : {line + "}\n", line + "}\n" + line + "}\n" + line + "}\n"}) {
    EXPECT_THAT(refusal("piqa", lines, labels), HasSubstr("has 2 labels, and"));
  }
  EXPECT_THAT(refusal("piqa", line + "}\n"), HasSubstr("the label is missing"));
}

TEST_F(TextRequests, OfArcAreReadInBothLayouts) {
  const auto published =
      asked("arc", R"({"question": {"stem": "Why?", "choices": [{"text": "so", "label": "A"}, )"
                   R"({"text": "no", "label": "B"}]}, "answerKey": "B"})");
  const auto other = asked("arc", R"({"question": "Why?", "answerKey": "2", "choices": )"
                                  R"({"text": ["so", "no"], "label": ["1", "2"]}})");
  for (const auto& data : {published, other}) {
    EXPECT_EQ(shown(*data, 0), "Question: Why?\nAnswer:| so");
    EXPECT_EQ(choice(*data, 1), (Numbers{0, 1, 2, 1, 2}));
  }
  EXPECT_THAT(refusal("arc", R"({"question": "Why?", "answerKey": "C", "choices": )"
                             R"({"text": ["so", "no"], "label": ["A", "B"]}})"),
              mentions("requests.jsonl:1:", "answerKey is 'C'", "A, B"));
}

TEST_F(TextRequests, OwnWhatTheWholeHasBehindItsContext) {
  const auto data = asked("choices", R"({"context": "xa", "choices": ["b a", "c"], "label": 0})");
  EXPECT_EQ(shown(*data, 0), "xa| b a");
  EXPECT_EQ(list_of(data->example(Split::test, 0, nullptr).at("targets")),
            (Numbers{-1, kFiles.number(" b"), kFiles.number(" a")}));
  EXPECT_EQ(list_of(data->example(Split::test, 0, nullptr).at("tokens")),
            (Numbers{'x', 'a', kFiles.number(" b")}));
}

TEST_F(TextRequests, WithoutAContextFollowTheTokenThatEndsTexts) {
  const auto data = asked("choices", R"({"context": " ", "choices": ["a"], "label": 0})");
  EXPECT_EQ(shown(*data, 0), "<|endoftext|>|  a");
  const testing::TempFolder text;
  text.write("t", "a b c\nb a c\n");
  const std::string file =
      folder.write("requests.jsonl", "{\"text\": \"word\"}\n{\"text\": \"a b\"}");
  const auto words = make_dataset("text_stream", "{root: " + text.path() +
                                                     ", split: [0.5, 0.5], form: "
                                                     "lambada, requests: " +
                                                     file + "}");
  EXPECT_EQ(list_of(words->example(Split::test, 0, nullptr).at("tokens")), (Numbers{0})) << "<eos>";
  EXPECT_EQ(shown(*words, 1), "a|b");
}

TEST_F(TextRequests, LoseTheBeginningOfALongContext) {
  const std::string lines = R"({"context": "12345", "choices": ["x", "y yy"], "label": 0})";
  const auto data = asked("choices", lines, ", window: 6");
  EXPECT_EQ(shown(*data, 0), "12345| x");
  EXPECT_EQ(data->example(Split::test, 0, nullptr).at("cut").item<std::int64_t>(), 0);
  EXPECT_EQ(shown(*data, 1), "45| y yy");
  EXPECT_EQ(data->example(Split::test, 1, nullptr).at("cut").item<std::int64_t>(), 3);
  EXPECT_THAT(data->info().source, mentions("1 of 2 requests", "beginning"));
  EXPECT_THAT(asked("choices", lines)->info().source, ::testing::Not(HasSubstr("cut")));
  EXPECT_THAT(refusal("choices", lines, ", window: 4"),
              AllOf(HasSubstr("requests.jsonl:1: choice 1 has 5 tokens"),
                    HasSubstr("dataset.window is 4; raise it")));
}

TEST_F(TextRequests, NameTheLineThatIsNoneOfTheForm) {
  const std::string good = R"({"context": "a", "choices": ["b", "c"], "label": 1})"
                           "\n";
  const auto second = [&](const std::string& line) { return refusal("choices", good + line); };
  EXPECT_THAT(second(R"({"context": "a", "choices": ["b", "c"], "label": 2})"),
              mentions("requests.jsonl:2:", "label is '2'", "2 choices"));
  EXPECT_THAT(second(R"({"context": "a", "choices": ["b", "c"], "label": -1})"),
              HasSubstr("the label is '-1'"));
  EXPECT_THAT(second(R"({"context": "a", "choices": ["b", " "], "label": 0})"),
              HasSubstr("requests.jsonl:2: choice 1 is empty"));
  EXPECT_THAT(second(R"({"context": "a", "choices": "b", "label": 0})"),
              mentions("'choices'", "a list of texts"));
  EXPECT_THAT(second(R"({"choices": ["b"], "label": 0})"), HasSubstr("lacks 'context'"));
  EXPECT_THAT(second("{"), HasSubstr("requests.jsonl:2: is not sound JSON"));
  EXPECT_THAT(second("[1]"), HasSubstr("expected a map"));
  EXPECT_THAT(refusal("lambada", "{\"text\": \"a word \"}"), HasSubstr("choice 0 is empty"));
  EXPECT_THAT(refusal("lambada", "\n"), HasSubstr("holds no question"));
}

TEST_F(TextRequests, NeedAFileAndAForm) {
  const std::string pairs = "{unit: byte_pair, tokenizer: " + folder / "pairs";
  const auto refused = [&](const std::string& options) {
    return message_of<Error>([&] { make_dataset("text_stream", options); });
  };
  EXPECT_THAT(refused(pairs + ", form: arc}"),
              AllOf(HasSubstr("requests"), HasSubstr("say which")));
  EXPECT_THAT(refused(pairs + ", requests: x}"), AllOf(HasSubstr("form"), HasSubstr("lambada")));
  EXPECT_THAT(refused(pairs + ", form: arc, requests: x, labels: y}"), HasSubstr("is for piqa"));
  EXPECT_THAT(
      refused(pairs + ", form: arc, requests: nowhere}"),
      AllOf(HasSubstr("'nowhere' is not here"), HasSubstr("correct the option `requests`")));
}

TEST_F(TextRequests, ArePaddedWithoutTargets) {
  const auto data = asked("choices", R"({"context": "abc", "choices": ["x", "y yy"], "label": 0})");
  const Batch batch = data->collate(
      {data->example(Split::test, 0, nullptr), data->example(Split::test, 1, nullptr)});
  EXPECT_EQ(batch.fields.at("targets").ge(0).sum(1)[0].item<std::int64_t>(), 2);
  EXPECT_EQ(batch.fields.at("tokens_valid").sum(1)[0].item<std::int64_t>(), 3);
  EXPECT_EQ(list_of(batch.fields.at("targets")[0]), (Numbers{-1, ' ', 'x', -1, -1, -1}));
}

TEST_F(TextRequests, AreOfADatasetThatKeepsItsContractByBytePairs) {
  folder.write("texts/t", "ab abc ab\nb ab\nab a b ab\n");
  testing::expect_contract_kept(
      "text_stream", "{unit: byte_pair, tokenizer: " + folder / "pairs" +
                         ", window: 3, split: [0.6, 0.4], root: " + folder / "texts" + "}");
}

TEST_F(TextRequests, ShareTheTokensOfATextByBytePairs) {
  folder.write("texts/train.txt", "ab ab\nab\n");
  folder.write("texts/test.txt", "x ab");
  const auto opened = [&](const std::string& pairs) {
    return make_dataset("text_stream", "{unit: byte_pair, window: 4, root: " + folder / "texts" +
                                           ", tokenizer: " + pairs + "}");
  };
  const auto data = opened(folder / "pairs");
  EXPECT_EQ(data->info().vocabulary, 260);
  EXPECT_EQ(list_of(data->example(Split::test, 0, nullptr).at("targets")),
            (Numbers{' ', kFiles.number("ab"), -1, -1}));
  const std::string others = PairFiles({{"b", "a"}, {"c", "a"}}).write(folder, "others");
  EXPECT_NE(opened(others)->info().fingerprint, data->info().fingerprint);
  const auto refused = [&](const std::string& options) {
    return message_of<Error>(
        [&] { make_dataset("text_stream", "{root: " + folder / "texts" + ", " + options + "}"); });
  };
  EXPECT_THAT(refused("unit: byte_pair"), HasSubstr("vocab.json and merges.txt"));
  EXPECT_THAT(refused("unit: byte, tokenizer: x"), mentions("byte pairs", "unit is byte"));
  const std::string pairs = "unit: byte_pair, tokenizer: " + folder / "pairs";
  EXPECT_THAT(refused(pairs + ", lines: true"), HasSubstr("span line ends"));
  EXPECT_THAT(refused(pairs + ", max_size: 5"), HasSubstr("vocabulary's file says"));
}

}  // namespace
}  // namespace attnlab::text_requests_test
