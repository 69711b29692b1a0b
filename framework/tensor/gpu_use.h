// How busy a GPU is, as NVIDIA's driver says.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

namespace attnlab {

/// Asks the driver by its library (NVML, https://docs.nvidia.com/deploy/nvml-api).
/// @param library  "libnvidia-ml.so.1", which comes with the driver
/// @param bus      the GPU's PCI bus id: "0000:3B:00.0"
/// @returns what gives the share of the last moment (a sixth of a second to a second) in which the
///          GPU computed: 0 to 1; none where the driver does not say. Null without such a library
///          or GPU.
std::function<std::optional<double>()> gpu_utilisation(const std::string& library,
                                                       const std::string& bus);

/// The mean since this process began, between training steps. Other programs on the GPU count, too.
class GpuUse {
 public:
  using Clock = std::chrono::steady_clock;

  /// Nothing is known of the CPU, and of a GPU without its driver's library.
  explicit GpuUse(const at::Device& device);
  explicit GpuUse(std::function<std::optional<double>()> ask) : ask_(std::move(ask)) {}

  /// Asks, at most once a second.
  void look(Clock::time_point now = Clock::now());
  /// 0 to 1; none where nothing is known yet.
  std::optional<double> mean() const;

 private:
  std::function<std::optional<double>()> ask_;
  std::optional<Clock::time_point> asked_;
  double sum_ = 0;
  std::int64_t count_ = 0;
};

}  // namespace attnlab
