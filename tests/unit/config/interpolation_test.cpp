// `${...}`: values, texts and the environment in other values.
#include "tests/unit/config/composed.h"

namespace attnlab::interpolation_test {
namespace {

using namespace testing;

TEST(Interpolation, CopiesAValueWithItsType) {
  EXPECT_EQ(interpolated("{a: 5, b: '${a}', c: {d: '${a}'}, l: [1, x], m: '${l}'}"),
            "{a: 5, b: 5, c: {d: 5}, l: [1, x], m: [1, x]}");
}

TEST(Interpolation, FindsSiblingsAndTheirParents) {
  EXPECT_EQ(
      interpolated("{m: {dim: 64, hidden: '${.dim}', mlp: {in: '${..dim}'}}, n: '${m.mlp.in}'}"),
      "{m: {dim: 64, hidden: 64, mlp: {in: 64}}, n: 64}");
  EXPECT_EQ(interpolated("{dim: 3, l: ['${..dim}', '${dim}']}"), "{dim: 3, l: [3, 3]}");
}

TEST(Interpolation, FindsItemsOfListsByTheirNumber) {
  EXPECT_EQ(interpolated("{l: [5, {k: 6}], a: '${l.0}', b: '${l.1.k}'}"),
            "{l: [5, {k: 6}], a: 5, b: 6}");
  EXPECT_THAT(interpolation_refusal("{l: [5], a: '${l.1}', b: '${l.x}'}"),
              says_lines({{"f.yaml:1:13:", "${l.1}", "'1'", "'l'", "items count from 0"},
                          {"f.yaml:1:26:", "${l.x}", "'x'", "'l'", "items count from 0"}}));
}

TEST(Interpolation, KeepsTheLifeThatTheValueHadBefore) {
  Node tree = parse_yaml("a: 1\nb: 2\n", "a.yaml");
  merge(tree, parse_yaml("a: 3\nb: ${a}\n", "b.yaml"));
  interpolate(tree);
  std::string life;
  for (const Origin& origin : tree.at("b").history()) {
    life += origin.place.str() + " " + origin.value + "\n";
  }
  EXPECT_EQ(life, "a.yaml:2:4 2\nb.yaml:2:4 ${a}\n");
  EXPECT_EQ(tree.at("b").text(), "3");
}

TEST(Interpolation, StandsInsideTexts) {
  EXPECT_EQ(interpolated("{a: vit, n: 4, b: '${a}-p${n}.bin'}"), "{a: vit, n: 4, b: vit-p4.bin}");
  EXPECT_THAT(interpolation_refusal("{l: [1], b: 'x${l}'}"), says({"f.yaml:1:13:", "${l}"}));
}

TEST(Interpolation, FollowsChainsInWhateverOrder) {
  EXPECT_EQ(interpolated("{a: '${b}', b: '${c}', c: 1}"), "{a: 1, b: 1, c: 1}");
  EXPECT_EQ(interpolated("{c: 1, b: '${c}', a: '${b}'}"), "{c: 1, b: 1, a: 1}");
  EXPECT_EQ(interpolated("{x: '${a.k}', a: '${m}', m: {k: '${n}'}, n: 2}"),
            "{x: 2, a: {k: 2}, m: {k: 2}, n: 2}");
}

TEST(Interpolation, ReadsTheEnvironmentWithAndWithoutADefault) {
  const Environment set("ATTNLAB_TEST_SET", "0.5");
  const Environment unset("ATTNLAB_TEST_UNSET", nullptr);
  EXPECT_EQ(interpolated("{a: '${env:ATTNLAB_TEST_SET}', b: '${env:ATTNLAB_TEST_UNSET,7}'}"),
            "{a: 0.5, b: 7}");
  EXPECT_EQ(interpolated("{a: '${env:ATTNLAB_TEST_UNSET,}x'}"), "{a: x}");
  EXPECT_THAT(interpolation_refusal("{a: '${env:ATTNLAB_TEST_UNSET}'}"),
              says({"f.yaml:1:5:", "${env:ATTNLAB_TEST_UNSET}", "${env:ATTNLAB_TEST_UNSET,VALUE}",
                    "give a default"}));
}

TEST(Composing, LeavesWhatAnEvaluationAppendsForTheRun) {
  EXPECT_EQ(
      composed({{"a.yaml",
                 "{extends: b.yaml, evaluate: {fog: {set: {model: {rates+: [2]}}, when: each}}}"},
                {"b.yaml", "{evaluate: {fog: {set: {model: {rates+: [1], dim: 3}}}}}"}}),
      "{evaluate: {fog: {set: {model: {rates+: [1, 2], dim: 3}}, when: each}}}");
  EXPECT_EQ(merged("{model: {set: {}}}", "{model: {set: {x+: [1]}}}"), "{model: {set: {x: [1]}}}")
      << "there alone";
}

TEST(Interpolation, TakesAnEscapedReferenceForText) {
  EXPECT_EQ(interpolated("{a: '$${b}', c: 'x$${d}y', e: '$$${f}', g: '$5 $'}"),
            "{a: \"${b}\", c: \"x${d}y\", e: \"$${f}\", g: $5 $}");
}

TEST(Interpolation, NeverReadsAReferenceInWhatItPutIn) {
  const Environment set("ATTNLAB_TEST_SET", "${nobody}");
  EXPECT_EQ(interpolated("{a: '${b}', b: '$${x}', c: '${b}'}"),
            "{a: \"${x}\", b: \"${x}\", c: \"${x}\"}");
  EXPECT_EQ(interpolated("{b: '${a}', a: '${env:ATTNLAB_TEST_SET}', c: 'is ${a}'}"),
            "{b: \"${nobody}\", a: \"${nobody}\", c: \"is ${nobody}\"}");
  EXPECT_EQ(interpolated("{x: '${a.k}', a: '${m}', y: '${a.k}', m: {k: '$${z}'}}"),
            "{x: \"${z}\", a: {k: \"${z}\"}, y: \"${z}\", m: {k: \"${z}\"}}");
}

TEST(Interpolation, RefusesCycles) {
  EXPECT_THAT(interpolation_refusal("{a: '${a}'}"), says({"f.yaml:1:5:", "a:", "${a}", "itself"}));
  EXPECT_THAT(interpolation_refusal("{a: '${b}', b: 'x${c}', c: '${a}'}"),
              HasSubstr("a: ${b} refers to itself"));
  EXPECT_THAT(interpolation_refusal("{m: {x: '${m}'}}"), HasSubstr("m.x: ${m} refers to itself"));
  EXPECT_THAT(interpolation_refusal("{m: '${}'}"), HasSubstr("refers to itself"));
}

TEST(Interpolation, RefusesAChainThatTheStackHasNoRoomFor) {
  std::string text = "a: [";
  for (int i = 1; i < 20'000; ++i) text += "'${a." + std::to_string(i) + "}', ";
  EXPECT_THAT(interpolation_refusal(text + "3]"), HasSubstr("more than 1000 times"));
}

TEST(Interpolation, ReportsEveryUnknownReferenceWithASuggestion) {
  EXPECT_THAT(interpolation_refusal("model: {dim: 1}\na: ${model.dmi}\nb: ${modle.dim}\n"),
              says_lines({{"f.yaml:2:4:", "${model.dmi}", "'dmi'", "'model'", "'dim'"},
                          {"f.yaml:3:4:", "${modle.dim}", "'modle'", "'model'"}}));
  EXPECT_EQ(interpolation_refusal("{a: '${....b}'}"), "f.yaml:1:5: ${....b} leaves the tree");
  EXPECT_THAT(interpolation_refusal("{a: 'x${b'}"),
              says({"f.yaml:1:5:", "'${' without '}'", "x${b"}));
  EXPECT_THAT(interpolation_refusal("{a: '${env:X,${b}}', b: 1}"),
              says({"f.yaml:1:5:", "${env:X,${b}}"}));
}

TEST(Interpolation, StopsValuesThatGrowFromStepToStep) {
  std::string lists = "a0: [x, x, x, x, x, x, x, x]\n";
  std::string texts = "a0: xxxxxxxx\n";
  for (int i = 1; i < 30; ++i) {
    const std::string last = "${a" + std::to_string(i - 1) + "}";
    const std::string key = "a" + std::to_string(i) + ": ";
    lists += key + "['" + last + "', '" + last + "', '" + last + "', '" + last + "']\n";
    texts += key + last + last + last + last + "\n";
  }
  EXPECT_THAT(interpolation_refusal(lists), HasSubstr("grows too large"));
  EXPECT_THAT(interpolation_refusal(texts), HasSubstr("grows too large"));
}

TEST(Interpolation, StopsATextThatGrowsWithinItself) {
  std::string text = "a: " + std::string(1 << 20, 'x') + "\nb: ";
  for (int i = 0; i < 100'000; ++i) text += "${a}";  // 100 GiB
  const std::string refused = interpolation_refusal(text + "\nc: ${a}\n");
  EXPECT_THAT(refused,
              AllOf(StartsWith("f.yaml:2:4: ${a}${a}"), HasSubstr("too large\nf.yaml:3:4: ${a}")));
  EXPECT_LT(refused.size(), 1000U);
}

TEST(Interpolation, KeepsTheLinesOfATextThatRefersInOneLine) {
  Node tree = parse_yaml("a: 5\nb: \"${a}\\nforged\"\n", "f.yaml");
  interpolate(tree);
  EXPECT_EQ(tree.at("b").text(), "5\nforged");
  EXPECT_EQ(tree.at("b").history().at(0).value, "\"${a}\\nforged\"");
}

TEST(Interpolation, KeepsThePlaceAndTheTextThatReferred) {
  Node tree = parse_yaml("a: 5\nb: ${a}\n", "f.yaml");
  interpolate(tree);
  EXPECT_EQ(tree.at("b").place().str(), "f.yaml:2:4");
  ASSERT_EQ(tree.at("b").history().size(), 1u);
  EXPECT_EQ(tree.at("b").history()[0].value, "${a}");
}

TEST(Interpolation, LeavesAValueThatMustBeGivenToItsReader) {
  EXPECT_EQ(to_yaml(parse_yaml("a: ???\n", "f.yaml")), "a: ???\n");
  Node tree = parse_yaml("a: ???\nb: ${a}\n", "f.yaml");
  interpolate(tree);
  EXPECT_EQ(tree.at("b").text(), "???");
  EXPECT_FALSE(tree.at("b").quoted());
}

TEST(ReferredKey, CountsDotsFromWhereTheReferenceStands) {
  EXPECT_EQ(referred_key("a.b", "x.y"), "a.b");
  EXPECT_EQ(referred_key(".b", "x.y"), "x.b");
  EXPECT_EQ(referred_key("..b", "x.y"), "b");
  EXPECT_EQ(referred_key("...b", "x.y"), "");
}

}  // namespace
}  // namespace attnlab::interpolation_test
