#include "framework/base/share.h"

#include <fmt/format.h>

#include <cmath>

#include "framework/base/error.h"
#include "framework/base/text.h"

namespace attnlab {
namespace {

/// To three digits.
double rounded_up(double number) {
  const double scale = std::pow(10, 2 - std::floor(std::log10(number)));
  return std::ceil(number * scale) / scale;
}

}  // namespace

void refuse_share(const char* option, double share, std::int64_t count, double least) {
  throw OptionError(
      option,
      count == 0
          ? "there is nothing to take a share of"
          : fmt::format("a share of {} of {} rounds to none; take at least {}, or 0 for none",
                        shortest(share), count, shortest(rounded_up(least))));
}

std::int64_t share_of(const char* option, double share, std::int64_t count) {
  const auto all = static_cast<double>(count);
  const double number = std::round(share * all);
  if (share > 0 && number < 1) refuse_share(option, share, count, 0.5 / all);
  return static_cast<std::int64_t>(number);
}

std::int64_t wanted_of(const char* option, double wanted, std::int64_t count) {
  if (wanted < 1) return share_of(option, wanted, count);
  if (wanted != std::floor(wanted)) {
    throw OptionError(option, shortest(wanted) + " is neither a share below 1 nor a whole number");
  }
  if (wanted > static_cast<double>(count)) {
    throw OptionError(
        option, fmt::format("{} is more than the {} that there are", shortest(wanted), count));
  }
  return static_cast<std::int64_t>(wanted);
}

}  // namespace attnlab
