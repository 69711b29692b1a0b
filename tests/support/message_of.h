// What an error says.
#pragma once

#include <gtest/gtest.h>

#include <exception>
#include <string>

namespace attnlab::testing {

/// What the error says that `act` throws. An error of another type, or none, fails the test.
template <class Error, class Act>
std::string message_of(Act&& act) {
  try {
    act();
  } catch (const Error& error) {
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "an error of another type: " << error.what();
    return "";
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

}  // namespace attnlab::testing
