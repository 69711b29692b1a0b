// How fast libjpeg-turbo alone decodes the JPEGs of a folder, whole, in one thread: files a second.
//
//   attnlab_bench_jpeg_decode FOLDER
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <vector>

#include <jpeglib.h>  // knows neither FILE nor size_t by itself

#include "framework/base/files.h"
#include "framework/base/json.h"

namespace {

void decode(const std::string& bytes, std::vector<unsigned char>& pixels) {
  jpeg_decompress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&info);
  jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  jpeg_read_header(&info, TRUE);
  info.out_color_space = JCS_RGB;
  jpeg_start_decompress(&info);
  pixels.resize(std::size_t{3} * info.output_width * info.output_height);
  while (info.output_scanline < info.output_height) {
    JSAMPROW row = pixels.data() + std::size_t{3} * info.output_width * info.output_scanline;
    jpeg_read_scanlines(&info, &row, 1);
  }
  jpeg_finish_decompress(&info);
  jpeg_destroy_decompress(&info);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: attnlab_bench_jpeg_decode FOLDER\n";
    return 2;
  }
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(argv[1])) {
    if (entry.is_regular_file()) files.push_back(entry.path().string());
  }
  std::vector<unsigned char> pixels;
  for (int round = 0; round < 3; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    for (const std::string& file : files) decode(attnlab::read_text(file), pixels);
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    std::cout << nlohmann::json({{"files", files.size()},
                                 {"files_per_second", static_cast<double>(files.size()) / seconds}})
                     .dump()
              << std::endl;
  }
}
