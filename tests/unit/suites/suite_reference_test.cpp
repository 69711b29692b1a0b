// A publication's numbers beside a suite's own.
#include "framework/suites/suite_reference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/config/compose.h"
#include "framework/suites/suite_keys.h"
#include "tests/support/message_of.h"

namespace attnlab::suite_reference_test {
namespace {

using attnlab::testing::mentions;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pointee;
using ::testing::StrEq;

/// The numbers of a suite with this `reference`.
std::vector<PublishedNumbers> read(const std::string& yaml, std::vector<std::string>& problems) {
  const Node keys = resolve_options(parse_yaml("reference: " + yaml, "s.yaml"),
                                    schema_of<SuiteKeys>(), "", "a suite", problems);
  std::erase_if(problems, [](const std::string& one) {  // of what a suite must have beside
    return one.find("reference") == std::string::npos;
  });
  return published_numbers(keys.at("reference"), problems);
}

std::vector<std::string> problems_of(const std::string& yaml) {
  std::vector<std::string> problems;
  read(yaml, problems);
  return problems;
}

TEST(SuiteReference, HoldsNumbersByExperimentAndAttention) {
  std::vector<std::string> problems;
  const std::vector<PublishedNumbers> references =
      read("{source: A paper, values: {a: {standard: 98.380, quest: 1e2}}}", problems);
  ASSERT_EQ(references.size(), 1U);
  const PublishedNumbers& reference = references[0];
  EXPECT_THAT(problems, IsEmpty());
  EXPECT_EQ(reference.source, "A paper");
  EXPECT_EQ(reference.metric, "accuracy");
  EXPECT_THAT(reference.find("a", "standard"), Pointee(StrEq("98.380"))) << "as it is printed";
  EXPECT_THAT(reference.find("a", "quest"), Pointee(StrEq("1e2")));
  EXPECT_EQ(reference.find("a", "linear"), nullptr);
  EXPECT_EQ(reference.find("b", "standard"), nullptr);
}

TEST(SuiteReference, HoldsSeveralMetricsAsAList) {
  std::vector<std::string> problems;
  const std::vector<PublishedNumbers> references = read(
      "[{source: A paper, values: {a: {quest: 88.9}}}, "
      "{source: A paper, metric: fog/accuracy, values: {a: {quest: 64}}}]",
      problems);
  EXPECT_THAT(problems, IsEmpty());
  ASSERT_EQ(references.size(), 2U);
  EXPECT_EQ(references[1].metric, "fog/accuracy");
  EXPECT_THAT(references[1].find("a", "quest"), Pointee(StrEq("64")));
}

TEST(SuiteReference, NamesEveryProblemWithItsPlace) {
  EXPECT_THAT(
      problems_of("{source: x, sauce: y, values: {a: {b: high, c: .nan}, d: 3}}"),
      ElementsAre(mentions("s.yaml:1:24:", "reference:", "'sauce'", "'source'"),
                  HasSubstr("s.yaml:1:50: reference.values.a.b: expected a number"),
                  HasSubstr("reference.values.a.c: expected a number"),
                  HasSubstr("reference.values.d: expected {ATTENTION: NUMBER, ...}, found 3")));
  EXPECT_THAT(problems_of("{source: x}"),
              ElementsAre(mentions("reference.values:", "needs a value")));
}

}  // namespace
}  // namespace attnlab::suite_reference_test
