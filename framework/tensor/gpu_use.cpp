#include "framework/tensor/gpu_use.h"

#include <dlfcn.h>

namespace attnlab {
namespace {

using Handle = void*;
/// As NVML's nvmlUtilization_t: percent.
struct Utilisation {
  unsigned gpu, memory;
};

constexpr int kFine = 0;  // of NVML and of the CUDA runtime

/// A function of a library; null where it has none of that name.
template <class Function>
Function* function_of(void* library, const char* name) {
  return reinterpret_cast<Function*>(::dlsym(library, name));
}

/// Asks the CUDA runtime that LibTorch brings along; empty where there is none. (Its index is not
/// the driver's: CUDA_VISIBLE_DEVICES hides and orders GPUs.)
std::string bus_of(const at::Device& device) {
  const auto ask = function_of<int(char*, int, int)>(RTLD_DEFAULT, "cudaDeviceGetPCIBusId");
  char text[32] = "";
  if (ask == nullptr || ask(text, sizeof text, device.index()) != kFine) return "";
  return text;
}

}  // namespace

std::function<std::optional<double>()> gpu_utilisation(const std::string& library,
                                                       const std::string& bus) {
  // It stays loaded: the driver does not like to be closed while LibTorch uses it.
  void* const driver = bus.empty() ? nullptr : ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (driver == nullptr) return {};
  const auto start = function_of<int()>(driver, "nvmlInit_v2");
  const auto find =
      function_of<int(const char*, Handle*)>(driver, "nvmlDeviceGetHandleByPciBusId_v2");
  const auto rates =
      function_of<int(Handle, Utilisation*)>(driver, "nvmlDeviceGetUtilizationRates");
  if (start == nullptr || find == nullptr || rates == nullptr || start() != kFine) return {};
  Handle gpu = nullptr;
  if (find(bus.c_str(), &gpu) != kFine) return {};
  return [gpu, rates]() -> std::optional<double> {
    Utilisation now{};
    if (rates(gpu, &now) != kFine) return std::nullopt;
    return now.gpu / 100.0;
  };
}

GpuUse::GpuUse(const at::Device& device)
    : ask_(device.is_cpu() ? nullptr : gpu_utilisation("libnvidia-ml.so.1", bus_of(device))) {}

void GpuUse::look(Clock::time_point now) {
  if (!ask_) return;
  if (asked_ && now - *asked_ < std::chrono::seconds(1)) return;
  asked_ = now;
  if (const std::optional<double> share = ask_()) {
    sum_ += *share;
    ++count_;
  }
}

std::optional<double> GpuUse::mean() const {
  if (count_ == 0) return std::nullopt;
  return sum_ / static_cast<double>(count_);
}

}  // namespace attnlab
