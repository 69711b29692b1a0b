// What the checks of gradient_checks.cpp find.
#include <torch/csrc/autograd/custom_function.h>

#include "tests/support/message_of.h"
#include "tests/unit/conformance/wrong_attention.h"

namespace attnlab::conformance::gradient_checks_test {
namespace {

using attnlab::testing::mentions;

/// x forward, half the gradient backward.
struct HalfGradient : torch::autograd::Function<HalfGradient> {
  static Tensor forward(torch::autograd::AutogradContext*, const Tensor& x) { return x.clone(); }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 torch::autograd::variable_list gradients) {
    return {gradients[0] * 0.5};
  }
};

/// x³ with the right derivative, which forgets that it depends on x.
struct CubeOnce : torch::autograd::Function<CubeOnce> {
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& x) {
    context->save_for_backward({x});
    return x * x * x;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const Tensor x = context->get_saved_variables()[0].detach();
    return {gradients[0] * 3 * x * x};
  }
};

TEST(ConformanceKit, FindsAWrongGradient) {
  const auto attend = [](Wrong& self, In in, Context& context) {
    in.keys = HalfGradient::apply(in.keys);
    return self.sound(in, context);
  };
  EXPECT_THAT(
      failure("gradients", attend),
      AllOf(StartsWith("no extras:"), HasSubstr("derivative of layer 0 by keys at [0, 0, 0, 0]"),
            HasSubstr("autograd says"), HasSubstr("central differences")));
}

TEST(ConformanceKit, FindsAWrongGradientInTheSecondLayerAlone) {
  const auto attend = [](Wrong& self, In in, Context& context) {
    if (context.layer == 1) in.queries = HalfGradient::apply(in.queries);
    return self.sound(in, context);
  };
  EXPECT_THAT(failure("gradients", attend),
              AllOf(StartsWith("no extras:"),
                    HasSubstr("derivative of layer 1 by queries at [0, 0, 0, 0]")));
}

TEST(ConformanceKit, FindsAWrongGradientOfAParameter) {
  class Scaled : public DotProductAttention {
   public:
    explicit Scaled(const AttentionShape& shape)
        : DotProductAttention(shape), scale_(register_parameter("scale", at::ones({1}))) {}

   protected:
    Tensor map_keys(const Tensor& keys, Context&) const override {
      return keys * HalfGradient::apply(scale_);
    }

   private:
    Tensor scale_;
  };
  const auto build = [](const AttentionShape& shape) { return std::make_shared<Scaled>(shape); };
  EXPECT_THAT(
      failure("gradients", {build, AttentionTraits::all_quadratic()}),
      AllOf(StartsWith("no extras:"), mentions("derivative of layer 0", "parameter scale at [0]")));
}

TEST(ConformanceKit, FindsAGraphThatIsCut) {
  const auto attend = [](Wrong& self, const In& in, Context& context) {
    return self.sound(in, context).detach();
  };
  EXPECT_THAT(failure("gradients", attend), HasSubstr("autograd says 0, central differences"));
}

TEST(ConformanceKit, FindsAWrongSecondGradient) {
  const auto attend = [](Wrong& self, In in, Context& context) {
    in.queries = CubeOnce::apply(in.queries);
    return self.sound(in, context);
  };
  EXPECT_EQ(run_check("gradients", subject(attend)).outcome, Outcome::passed);
  EXPECT_THAT(failure("second_gradients", attend),
              AllOf(StartsWith("no extras:"),
                    HasSubstr("second derivative of layer 0 by queries at [0, 0, 0, 0]")));
}

}  // namespace
}  // namespace attnlab::conformance::gradient_checks_test
