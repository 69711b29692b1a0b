#include "framework/conformance/judge.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <limits>

namespace attnlab::conformance {
namespace {

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

Tensor flat(const Tensor& tensor) {
  return tensor.detach().to(at::kCPU).to(at::kDouble).contiguous().view({-1});
}

void expect_shape(const std::string& what, const Tensor& found, const Tensor& expected) {
  expect(found.defined() && found.sizes() == expected.sizes(),
         fmt::format("{} is {}, expected {}", what, describe(found), describe(expected)));
}

}  // namespace

std::string place_text(const Tensor& tensor, std::int64_t index) {
  std::string text;
  for (std::int64_t d = tensor.dim() - 1; d >= 0; --d) {
    text = fmt::format("{}{}", index % tensor.size(d), text.empty() ? "" : ", " + text);
    index /= tensor.size(d);
  }
  return fmt::format("[{}]", text);
}

void expect(bool holds, const std::string& otherwise) {
  if (!holds) throw Failure(otherwise);
}

double largest_difference(const Tensor& a, const Tensor& b) {
  if (a.sizes() != b.sizes()) return std::numeric_limits<double>::infinity();
  return a.numel() == 0 ? 0.0 : (flat(a) - flat(b)).abs().max().item<double>();
}

void expect_close(const std::string& what, const Tensor& found, const Tensor& expected,
                  double tolerance) {
  expect_shape(what, found, expected);
  if (found.numel() == 0) return;
  const Tensor x = flat(found), y = flat(expected);
  const double allowed = tolerance * std::max(1.0, y.abs().max().item<double>());
  const Tensor differs = (x - y).abs();
  // NaN first, then the largest difference.
  const Tensor rank = differs.nan_to_num(std::numeric_limits<double>::infinity());
  const std::int64_t worst = rank.argmax().item<std::int64_t>();
  const double difference = differs[worst].item<double>();
  if (difference <= allowed) return;
  throw Failure(fmt::format("{} at {} is {}, expected {} (differs by {}, allowed {})", what,
                            place_text(found, worst), number(x[worst].item<double>()),
                            number(y[worst].item<double>()), number(difference), number(allowed)));
}

void expect_identical(const std::string& what, const Tensor& found, const Tensor& expected) {
  expect_shape(what, found, expected);
  expect(found.scalar_type() == expected.scalar_type(),
         fmt::format("{} is {}, expected {}", what, describe(found), describe(expected)));
  const Tensor same =
      found.eq(expected).logical_or(found.ne(found).logical_and(expected.ne(expected)));
  if (same.all().item<bool>()) return;
  const std::int64_t first =
      same.logical_not().reshape({-1}).to(at::kInt).argmax().item<std::int64_t>();
  throw Failure(fmt::format("{} at {} is {}, expected exactly {}", what, place_text(found, first),
                            number(flat(found)[first].item<double>()),
                            number(flat(expected)[first].item<double>())));
}

void expect_finite(const std::string& what, const Tensor& found) {
  const Tensor bad = found.detach().isfinite().logical_not().contiguous().view({-1});
  if (!bad.any().item<bool>()) return;
  const std::int64_t first = bad.to(at::kInt).argmax().item<std::int64_t>();
  throw Failure(fmt::format("{} at {} is {}", what, place_text(found, first),
                            number(flat(found)[first].item<double>())));
}

void expect_zero(const std::string& what, const Tensor& found) {
  expect_close(what, found, at::zeros_like(found), 0);
}

}  // namespace attnlab::conformance
