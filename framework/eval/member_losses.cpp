// Cross-entropy of members: see the header.
#include "framework/eval/member_losses.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>

namespace attnlab {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Softmax of a row of logits. @returns the logarithm of the sum of their exponentials.
float softmax(const float* logits, std::int64_t count, float* p) {
  const float top = *std::max_element(logits, logits + count);
  float sum = 0;
  for (std::int64_t k = 0; k < count; ++k) {
    p[k] = std::exp(logits[k] - top);
    sum += p[k];
  }
  for (std::int64_t k = 0; k < count; ++k) p[k] /= sum;
  return top + std::log(sum);
}

struct MemberCrossEntropy : public torch::autograd::Function<MemberCrossEntropy> {
  static Tensor forward(AutogradContext* context, const Tensor& given, const Tensor& labels,
                        double smoothing, std::int64_t members) {
    const Tensor logits = given.contiguous(), classes = labels.contiguous();
    const std::int64_t count = logits.size(1), rows = logits.size(0) / members;
    Tensor losses = at::empty({members}, logits.options());
    const Tensor p = at::empty(logits.sizes(), logits.options());
    const auto s = static_cast<float>(smoothing);
    const float* row = logits.data_ptr<float>();
    const std::int64_t* label = classes.data_ptr<std::int64_t>();
    float *to = p.data_ptr<float>(), *loss = losses.data_ptr<float>();
    for (std::int64_t e = 0; e < members; ++e) {
      double sum = 0;
      for (std::int64_t i = 0; i < rows; ++i, row += count, to += count, ++label) {
        const float all = softmax(row, count, to);
        float mean = 0;
        if (s > 0) {
          for (std::int64_t k = 0; k < count; ++k) mean += row[k];
          mean /= static_cast<float>(count);
        }
        sum += all - (1 - s) * row[*label] - s * mean;
      }
      loss[e] = static_cast<float>(sum / static_cast<double>(rows));
    }
    context->save_for_backward({logits, classes, p});
    context->saved_data["smoothing"] = smoothing;
    return losses;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const Tensor &logits = saved[0], &classes = saved[1];
    const double smoothing = context->saved_data["smoothing"].toDouble();
    const std::int64_t members = gradients[0].size(0), count = logits.size(1);
    const std::int64_t rows = logits.size(0) / members;
    // With gradients on, the caller asked for a graph of this backward pass.
    if (at::GradMode::is_enabled()) {
      const Tensor wanted =
          at::one_hot(classes, count).to(at::kFloat) * (1 - smoothing) + smoothing / double(count);
      const Tensor away = (at::softmax(logits, 1) - wanted).view({members, rows, count});
      const Tensor by = gradients[0].view({members, 1, 1}) / double(rows);
      return {(away * by).view(logits.sizes()), Tensor(), Tensor(), Tensor()};
    }
    const Tensor out = at::empty(logits.sizes(), logits.options());
    const Tensor grad = gradients[0].contiguous();
    const auto s = static_cast<float>(smoothing);
    const float* p = saved[2].data_ptr<float>();
    const std::int64_t* label = classes.data_ptr<std::int64_t>();
    float* to = out.data_ptr<float>();
    for (std::int64_t e = 0; e < members; ++e) {
      const float by = grad.data_ptr<float>()[e] / static_cast<float>(rows);
      for (std::int64_t i = 0; i < rows; ++i, p += count, to += count, ++label) {
        for (std::int64_t k = 0; k < count; ++k) to[k] = (p[k] - s / float(count)) * by;
        to[*label] -= (1 - s) * by;
      }
    }
    return {out, Tensor(), Tensor(), Tensor()};
  }
};

}  // namespace

Tensor member_cross_entropy(const Tensor& logits, const Tensor& classes, double label_smoothing,
                            std::int64_t members) {
  if (logits.device().is_cpu() && logits.scalar_type() == at::kFloat && logits.numel() > 0) {
    return MemberCrossEntropy::apply(logits, classes, label_smoothing, members);
  }
  return at::cross_entropy_loss(logits, classes, /*weight=*/{}, at::Reduction::None,
                                /*ignore_index=*/-100, label_smoothing)
      .view({members, -1})
      .mean(1);
}

}  // namespace attnlab
