// Prototypes of iBOT's head: von Mises-Fisher's normaliser, scores and centres.
#include "plugins/tasks/images/ibot/head.h"

#include <gtest/gtest.h>

#include <numbers>

#include "tests/plugins/images/ibot_loops.h"
#include "tests/support/naive_attention.h"

namespace attnlab::ibot_head_test {
namespace {

using ibot_loops::dot;
using ibot_loops::Row;
using ibot_loops::Rows;
using ibot_loops::rows_of;
using ibot_loops::softmax;
using testing::largest_difference;

/// log C_p(k) by the power series of the Bessel function.
double log_normaliser(double kappa, std::int64_t dimensions) {
  const double order = double(dimensions) / 2 - 1;
  double most = -1e300;
  std::vector<double> terms;
  for (int m = 0; m < 2000; ++m) {
    terms.push_back((2 * m + order) * std::log(kappa / 2) - std::lgamma(m + 1) -
                    std::lgamma(m + order + 1));
    most = std::max(most, terms.back());
  }
  double sum = 0;
  for (const double term : terms) sum += std::exp(term - most);
  return order * std::log(kappa) - double(dimensions) / 2 * std::log(2 * std::numbers::pi) -
         (most + std::log(sum));
}

TEST(VonMisesFisher, NormaliserIsThatOfThePowerSeries) {
  for (const std::int64_t p : {16, 64, 256}) {
    const double order = double(p) / 2 - 1;
    const auto found = [&](double kappa) {
      return vmf_log_normaliser(at::full({}, kappa, at::kDouble), p).item<double>();
    };
    for (const double kappa : {0.5, 4.0, 25.0, 60.0, 200.0}) {
      EXPECT_NEAR(found(kappa) - found(10), log_normaliser(kappa, p) - log_normaliser(10, p),
                  1 / (8 * order))  // the next term is (3 t - 5 t^3) / (24 order), 0 < t < 1
          << p << " " << kappa;
    }
  }
  // It has a slope everywhere, at 0 too.
  const Tensor zero = at::zeros({1}, at::kDouble).requires_grad_(true);
  vmf_log_normaliser(zero, 16).sum().backward();
  EXPECT_EQ(zero.grad().item<double>(), 0);
}

class EveryKind : public ::testing::TestWithParam<const char*> {
 protected:
  EveryKind() {
    at::manual_seed(3);
    prototypes = std::make_shared<Prototypes>(6, 5, kind());
    prototypes->to(at::kDouble);
    const at::NoGradGuard no_gradients;
    for (auto& item : prototypes->named_parameters()) {
      if (item.key() == "norms") item.value().uniform_(0.5, 2);
    }
    z = at::randn({7, 6}, at::kDouble);
    z = z / z.norm(2, 1, true);
    centre = at::randn({5}, at::kDouble) * 0.1;
  }

  Prototypes::Kind kind() const {
    const std::string name = GetParam();
    return name == "unit"   ? Prototypes::Kind::unit
           : name == "free" ? Prototypes::Kind::free
                            : Prototypes::Kind::vmf;
  }
  bool vmf() const { return kind() == Prototypes::Kind::vmf; }

  /// w_k z of each row, and |w_k|.
  Rows products() const {
    const auto parameters = prototypes->named_parameters();
    const Rows directions = rows_of(parameters["directions"]), tokens = rows_of(z);
    Rows all(tokens.size(), Row(5));
    for (std::size_t k = 0; k < 5; ++k) {
      const double length = std::sqrt(dot(directions[k], directions[k]));
      for (std::size_t r = 0; r < tokens.size(); ++r) {
        all[r][k] = dot(directions[k], tokens[r]) / length * norms()[k];
      }
    }
    return all;
  }
  Row norms() const {
    const auto parameters = prototypes->named_parameters();
    if (!parameters.contains("norms")) return Row(5, 1);
    const Tensor values = parameters["norms"].detach().reshape({1, 5});
    return rows_of(values)[0];
  }
  /// Without what is equal for all prototypes, exactly as `vmf_log_normaliser` says it.
  Row corrections(double temperature) const {
    Row out(5, 0);
    if (!vmf()) return out;
    const Row lengths = norms();
    for (std::size_t k = 0; k < 5; ++k) {
      out[k] =
          vmf_log_normaliser(at::full({}, lengths[k] / temperature, at::kDouble), 6).item<double>();
    }
    return out;
  }

  std::shared_ptr<Prototypes> prototypes;
  Tensor z, centre;
};

TEST_P(EveryKind, ScoresTokensAsLoopsDo) {
  const Rows scores = products();
  const Row around = rows_of(centre.unsqueeze(0))[0];
  const Rows student = rows_of(prototypes->student(z, 0.1));
  const Rows teacher = rows_of(prototypes->teacher(z, 0.05, centre));
  const Row of_student = corrections(0.1), of_teacher = corrections(0.05);
  for (std::size_t r = 0; r < scores.size(); ++r) {
    Row logits(5);
    for (std::size_t k = 0; k < 5; ++k) {
      EXPECT_NEAR(student[r][k], scores[r][k] / 0.1 + of_student[k], 1e-9);
      logits[k] = vmf() ? scores[r][k] / 0.05 + of_teacher[k] - around[k]
                        : (scores[r][k] - around[k]) / 0.05;
    }
    const Row expected = softmax(logits);
    for (std::size_t k = 0; k < 5; ++k) EXPECT_NEAR(teacher[r][k], expected[k], 1e-9);
  }
}

TEST_P(EveryKind, CentreIsOfAllTokensHoweverTheyAreDivided) {
  const Rows scores = products();
  const Row of_teacher = corrections(0.05);
  Row expected(5, 0);
  for (const Row& row : scores) {
    Row logits(5);
    for (std::size_t k = 0; k < 5; ++k) logits[k] = row[k] / 0.05 + of_teacher[k];
    const Row shares = softmax(logits);
    for (std::size_t k = 0; k < 5; ++k) expected[k] += (vmf() ? shares[k] : row[k]) / 7;
  }
  if (vmf()) {
    for (double& value : expected) value = std::log(value);
  }
  const Tensor whole = prototypes->centre_of(prototypes->sum_of(z, 0.05), 7);
  const Tensor sum =
      prototypes->sum_of(z.narrow(0, 0, 2), 0.05) + prototypes->sum_of(z.narrow(0, 2, 5), 0.05);
  const Tensor parts = prototypes->centre_of(sum, 7);
  for (std::int64_t k = 0; k < 5; ++k) {
    EXPECT_NEAR(whole[k].item<double>(), expected[std::size_t(k)], 1e-9);
  }
  EXPECT_LT(largest_difference(parts.detach(), whole.detach()), 1e-12);
}

/// Where float32 holds no share of a prototype any more.
TEST(Prototypes, KnowTheCentreOfPrototypesThatNoTokenIsLike) {
  Prototypes prototypes(4, 3, Prototypes::Kind::vmf);
  const at::NoGradGuard no_gradients;
  auto parameters = prototypes.named_parameters();
  parameters["directions"].zero_();
  for (int k = 0; k < 3; ++k) parameters["directions"][k][0] = k == 2 ? -1 : 1;
  parameters["norms"].fill_(3);
  const Tensor z = at::tensor({1.0F, 0.0F, 0.0F, 0.0F}).view({1, 4});
  const Tensor centre = prototypes.centre_of(prototypes.sum_of(z, 0.05), 1);
  EXPECT_NEAR(centre[0].item<double>(), std::log(0.5), 1e-6);
  EXPECT_NEAR(centre[2].item<double>(), std::log(0.5) - 2 * 3 / 0.05, 1e-3);
}

INSTANTIATE_TEST_SUITE_P(Prototypes, EveryKind, ::testing::Values("unit", "free", "vmf"),
                         [](const auto& kind) { return std::string(kind.param); });

}  // namespace
}  // namespace attnlab::ibot_head_test
