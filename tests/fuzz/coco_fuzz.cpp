// Fuzzes the reader of COCO's annotations: pictures whose boxes lie within them, or a DataError
// that names the file.
//
// Code: framework/data/detection/coco_file.cpp framework/data/detection/pictures.cpp
#include "framework/base/error.h"
#include "framework/data/detection/coco_file.h"
#include "tests/fuzz/files_in_memory.h"

namespace attnlab::fuzz {
namespace {

void check(const CocoFile& file) {
  if (file.files.size() != file.pictures.size()) fail("pictures without a file");
  for (const PictureNotes& picture : file.pictures) {
    const auto width = static_cast<double>(picture.width);
    const auto height = static_cast<double>(picture.height);
    for (const ObjectBox& box : picture.objects) {
      const bool inside = box.x0 >= 0 && box.y0 >= 0 && box.x0 < box.x1 && box.y0 < box.y1 &&
                          box.x1 <= width && box.y1 <= height;
      if (!inside) fail("a box that is not in its picture");
      const auto classes = static_cast<std::int64_t>(file.class_names.size());
      if (box.label < 0 || box.label >= classes) fail("a box without a class");
    }
  }
}

}  // namespace

Target target() {
  Target target;
  const std::string whole =
      R"({"info":{"year":2017},"licenses":[],"images":[)"
      R"({"id":2,"file_name":"b.jpg","height":4,"width":6,"license":1},)"
      R"({"id":1,"file_name":"a.jpg","height":8,"width":8}],"annotations":[)"
      R"({"id":1,"image_id":2,"category_id":7,"bbox":[1,1,3,2.5],"area":7.5,"iscrowd":0,)"
      R"("segmentation":[[1,1,4,1,4,3]]},)"
      R"({"id":2,"image_id":1,"category_id":3,"bbox":[0,0,9,9],"iscrowd":1}],)"
      R"("categories":[{"id":7,"name":"cat","supercategory":"animal"},{"id":3,"name":"dog"}]})";
  target.seeds = {whole, R"({"images":[],"annotations":[],"categories":[]})", "[]", "{", ""};
  target.words = {"\"images\":[",
                  "\"annotations\":[",
                  "\"categories\":[",
                  "\"id\":",
                  "\"bbox\":[",
                  "\"area\":",
                  "\"height\":",
                  "1e308",
                  "-1e308",
                  "1e999",
                  "9007199254740992",
                  "-1",
                  "\"iscrowd\":1",
                  "[[[[[[[[",
                  "null",
                  "\"image_id\":2"};
  return target;
}

}  // namespace attnlab::fuzz

int attnlab::fuzz::try_input(const std::uint8_t* data, std::size_t size) {
  using namespace attnlab;
  static const fuzz::MemoryFolder folder;
  const std::string path = folder.write("in.json", {reinterpret_cast<const char*>(data), size});
  try {
    fuzz::check(read_coco(path, {}));
    return 0;
  } catch (const DataError& error) {
    fuzz::check_names(path, error);
    return -1;
  }
}
