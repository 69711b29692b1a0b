#include "framework/costs/forecast.h"

#include "tests/support/compositions.h"

namespace attnlab::forecast_test {
namespace {

using namespace testing;

TEST(RunForecast, ComesBackFromAProbesLineAsItWas) {
  RunForecast run{"ab", 7, 1'000'000'000, 100, 0.5, 3, 123456789};
  run.problems = {"", "too long"};
  const RunForecast read = parse_probe(probe_line(run));
  EXPECT_EQ(read.data, "ab");
  EXPECT_EQ(read.parameters, 7);
  EXPECT_EQ(read.flops, 1'000'000'000);
  EXPECT_EQ(read.seconds(), 53.0);
  EXPECT_EQ(read.peak_memory, 123456789);
  EXPECT_THAT(read.problems, ElementsAre("", "too long"));
}

TEST(RunForecast, IsNoneWhereAProbePrintsSomethingElse) {
  EXPECT_THAT(message_of<Error>([] { parse_probe("{\"data\": 3}"); }),
              mentions("attnlab probe", "{\"data\": 3}"));
}

}  // namespace
}  // namespace attnlab::forecast_test
