// Calls that may never return.
#include "framework/base/bounded_call.h"

#include <gtest/gtest.h>

#include <future>
#include <string>

namespace attnlab::bounded_call_test {
namespace {

constexpr std::chrono::hours kLong{1};

TEST(BoundedCall, GivesWhatTheCallGives) {
  EXPECT_EQ(bounded_call(kLong, [text = std::string("seven")] { return text.size(); }), 5U);
  EXPECT_THROW(bounded_call(kLong, []() -> int { throw DataError("none"); }), DataError);
}

TEST(BoundedCall, GivesUpOneThatDoesNotReturn) {
  std::promise<void> gate;
  const std::shared_future<void> opened = gate.get_future().share();
  EXPECT_THROW(bounded_call(std::chrono::milliseconds(1), [opened] { opened.wait(); }), NoAnswer);
  gate.set_value();
  EXPECT_NO_THROW(bounded_call(kLong, [opened] { opened.wait(); }));
}

}  // namespace
}  // namespace attnlab::bounded_call_test
