#include "runner/inspect/image_bytes.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "framework/base/base64.h"
#include "framework/base/files.h"
#include "framework/data/image/png.h"

namespace attnlab {
Pixels bytes_of(const Tensor& image, const FieldInfo& field) {
  const Tensor values = image.to(at::kDouble).contiguous();
  const std::int64_t channels = values.size(0), height = values.size(1), width = values.size(2);
  const double low = values.min().item<double>(), high = values.max().item<double>();
  Pixels out(height, width, channels >= 3 ? 3 : 1);
  for (std::int64_t c = 0; c < out.channels; ++c) {
    const auto channel = static_cast<std::size_t>(c);
    const bool known = channel < field.mean.size();
    const double scale = known ? field.deviation[channel] : 1 / std::max(high - low, 1e-12);
    const double shift = known ? field.mean[channel] : -low * scale;
    const double* plane = values.data_ptr<double>() + c * height * width;
    for (std::int64_t i = 0; i < height * width; ++i) {
      // In this order, what is not a number is 0.
      const double level = std::max(0.0, std::round(255 * (plane[i] * scale + shift)));
      out.bytes[static_cast<std::size_t>(i * out.channels + c)] =
          static_cast<std::uint8_t>(std::min(level, 255.0));
    }
  }
  return out;
}

std::string png_text(const Tensor& image, const FieldInfo& field) {
  return base64_text(png_of(bytes_of(image, field)));
}

void write_picture(const std::string& path, const Pixels& picture) {
  std::error_code error;  // what keeps the folder away keeps the file away, too
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  write_file(path, png_of(picture));
}

}  // namespace attnlab
