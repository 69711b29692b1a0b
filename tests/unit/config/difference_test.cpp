#include "framework/config/difference.h"

#include "framework/config/origins.h"
#include "tests/support/deadline.h"
#include "tests/support/made_parts.h"

namespace attnlab::difference_test {
namespace {

using namespace testing;

/// "key: before -> after", a line each.
std::string differing(const std::string& before, const std::string& after) {
  std::string out;
  for (const Difference& one : differences(parse_yaml(before, "a"), parse_yaml(after, "b"))) {
    out += one.key + ": " + (one.before ? to_flow(*one.before) : "-") + " -> " +
           (one.after ? to_flow(*one.after) : "-") + "\n";
  }
  return out;
}

TEST(Differences, AreFoundKeyByKeyWhateverTheirOrder) {
  EXPECT_EQ(differing("{a: 1, m: {x: 1, y: 2}, l: [1]}", "{l: [1], m: {y: 3, x: 1}, a: 1}"),
            "m.y: 2 -> 3\n");
  EXPECT_EQ(differing("{m: {x: 1}}", "{m: {x: 1}}"), "");
}

TEST(Differences, ShowWhatOnlyOneSideHas) {
  EXPECT_EQ(differing("{a: 1, m: {x: 1}}", "{a: 1, n: {y: {z: 2}}}"),
            "m.x: 1 -> -\nn.y.z: - -> 2\n");
  EXPECT_EQ(differing("{a: {b: 1}}", "{a: 5}"), "a: {b: 1} -> 5\n");
  EXPECT_EQ(differing("{a: null}", "{a: 5}"), "a: null -> 5\n");
}

TEST(Differences, CompareListsAsAWhole) {
  EXPECT_EQ(differing("{l: [1, 2]}", "{l: [2, 1]}"), "l: [1, 2] -> [2, 1]\n");
  EXPECT_EQ(differing("{l: [{a: 1}]}", "{l: [{a: 1}]}"), "");
  EXPECT_EQ(differing("{l: [{a: 1}]}", "{l: [{b: 1}]}"), "l: [{a: 1}] -> [{b: 1}]\n");
}

TEST(Differences, CompareNumbersByValueAndTextsByLetter) {
  EXPECT_EQ(differing("{a: 1e-3, b: [1.0], c: '5', d: true}", "{a: 0.001, b: [1], c: 5, d: true}"),
            "");
  EXPECT_EQ(differing("{a: 1e-3, b: x, c: '1.0'}", "{a: 1e-4, b: X, c: '1'}"),
            "a: 1e-3 -> 1e-4\nb: x -> X\nc: \"1.0\" -> \"1\"\n");
}

TEST(Origins, AreReadAsTheyWereWritten) {
  const MadeParts parts;
  const TempFolder folder;
  const std::string file = folder.write(
      "f.yaml", kImages + "train: {epochs: 3, eval_batch_size: \"${train.epochs}\"}\n");
  const Experiment experiment = load_experiment(file,
                                                {"train.epochs=4", "model.note='a: b = c'",
                                                 "seeds=[1]", "train={log_every: 7,\nprefetch: 3}"},
                                                parts.catalogue());
  std::map<std::string, RecordedOrigin> origins;
  for (const RecordedOrigin& origin : read_origins(origins_text(experiment.resolved))) {
    EXPECT_TRUE(origins.emplace(origin.key, origin).second) << origin.key;
  }
  EXPECT_EQ(origins.at("train.epochs").place, "argument 'train.epochs=4'");
  EXPECT_EQ(origins.at("train.epochs").value, "4");
  EXPECT_THAT(origins.at("train.epochs").steps,
              ElementsAre(file + ":6:17: 3", "argument 'train.epochs=4': 4"));
  EXPECT_THAT(origins.at("train.eval_batch_size").steps,
              ElementsAre(file + ":6:37: ${train.epochs}", file + ":6:37: 4"));
  EXPECT_EQ(origins.at("train.workers").place, "default of train");
  EXPECT_EQ(origins.at("model.note").value, "\"a: b = c\"");
  EXPECT_EQ(origins.at("seeds").value, "[1]");
  EXPECT_EQ(origins.at("train.prefetch").place, "argument 'train={log_every: 7,\\nprefetch: 3}'");
}

TEST(Origins, OfAnyNumberOfEarlierValuesAreReadInTheirOrder) {
  const testing::Deadline deadline;  // for what takes a time that grows with the square
  std::string text = "f.yaml:1:1: a = last\n";
  constexpr int kSteps = 300'000;
  for (int i = kSteps; i > 0; --i) text += "    before, f.yaml: " + std::to_string(i) + "\n";
  const std::vector<RecordedOrigin> origins = read_origins(text + "f.yaml:2:1: b = 2\n");
  ASSERT_EQ(origins.size(), 2U);
  ASSERT_EQ(origins[0].steps.size(), std::size_t(kSteps) + 1);
  EXPECT_EQ(origins[0].steps.front(), "f.yaml: 1");
  EXPECT_EQ(origins[0].steps.back(), "f.yaml:1:1: last");
  EXPECT_THAT(origins[1].steps, ElementsAre("f.yaml:2:1: 2"));
}

TEST(Origins, RefuseWhatIsNone) {
  EXPECT_EQ(message_of<DataError>([] { read_origins("nothing\n"); }),
            "origins.txt: expected 'place: key = value', found 'nothing'");
  EXPECT_THAT(message_of<DataError>([] { read_origins("    before, f.yaml:1:1: 2\n"); }),
              says({"origins.txt:", "earlier value"}));
}

}  // namespace
}  // namespace attnlab::difference_test
