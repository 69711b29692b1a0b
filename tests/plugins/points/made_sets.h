// Small folders of every kind of point set, as their publishers lay them out.
#pragma once

#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "tests/support/temp_folder.h"

namespace attnlab::testing {

inline std::string floats(const std::vector<float>& numbers) {
  std::string bytes(numbers.size() * 4, '\0');
  std::memcpy(bytes.data(), numbers.data(), bytes.size());
  return bytes;
}

/// The camera looks along x, as KITTI's; 100 pixels a unit at distance 1, in an image of 1242 x
/// 375.
inline constexpr const char* kCalibration =
    "P2: 100 0 621 0 0 100 187 0 0 0 1 0\nR0_rect: 1 0 0 0 1 0 0 0 1\n"
    "Tr_velo_to_cam: 0 -1 0 0 0 0 -1 0 1 0 0 0\n";

inline void write_kitti(const TempFolder& folder, const std::string& root) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const char* frame : {"000000", "000001"}) {
    const std::string name = root + "/training/";
    // In a car at (10, 2, 0..1), in the same place behind the camera, lost, above the car, in a
    // van.
    folder.write(name + "velodyne/" + frame + ".bin",
                 floats({10, 2, 0.5f, 0.1f, -10,  2,    0.5f, 0.2f, nan,  0,
                         0,  0, 10,   2,    1.8f, 0.3f, 20,   -3,   0.5f, 0.4f}));
    folder.write(name + "calib/" + frame + ".txt", kCalibration);
    folder.write(name + "label_2/" + frame + ".txt",
                 "Car 0 0 0 0 0 1 1 1.5 1.6 4 -2 0 10 0\n"
                 "Van 0 0 0 0 0 1 1 2 2 5 3 0 20 1.5708\n"
                 "DontCare -1 -1 -10 0 0 1 1 -1 -1 -1 -1000 -1000 -1000 -10\n");
  }
}

inline void write_semantic(const TempFolder& folder) {
  for (const char* drive : {"00", "08"}) {
    const std::string name = std::string("semantic/sequences/") + drive;
    folder.write(name + "/velodyne/000000.bin", floats({0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 2, 1}));
    folder.write(name + "/labels/000000.label",
                 std::string("\x0a\0\x05\0\xfe\0\0\0\x34\0\0\0",
                             12));  // car of object 5, moving person, other structure
  }
}

/// A scan of a scene to train on, and one of scene-0103.
inline void write_nuscenes(const TempFolder& folder, const std::string& version = "v1.0-trainval",
                           const std::string& first = "scene-0001") {
  const auto record = [](std::initializer_list<std::pair<const char*, std::string>> fields) {
    std::string text = "{";
    for (const auto& [name, value] : fields) {
      text += (text.size() > 1 ? ", \"" : "\"") + std::string(name) + "\": \"" + value + "\"";
    }
    return text + "}";
  };
  std::string scenes, samples, scans, labels;
  for (const auto& [number, scene] :
       {std::pair<const char*, std::string>{"0", first}, {"1", "scene-0103"}}) {
    const std::string n = number, comma = n == "0" ? ",\n" : "";
    scenes += record({{"token", "c" + n}, {"name", scene}}) + comma;
    samples += record({{"token", "s" + n}, {"scene_token", "c" + n}}) + comma;
    scans += record({{"token", "d" + n},
                     {"sample_token", "s" + n},
                     {"filename", "samples/LIDAR_TOP/" + n + ".pcd.bin"}}) +
             ",\n";
    scans += record({{"token", "e" + n}, {"sample_token", "s" + n}, {"filename", "x.jpg"}}) + comma;
    labels += record({{"token", "d" + n},
                      {"sample_data_token", "d" + n},
                      {"filename", "lidarseg/" + n + "_lidarseg.bin"}}) +
              comma;
    folder.write("nuscenes/samples/LIDAR_TOP/" + n + ".pcd.bin",
                 floats({1, 2, 3, 255, 0, 4, 5, 6, 51, 1}));
    folder.write("nuscenes/lidarseg/" + n + "_lidarseg.bin", std::string("\x11\x1f", 2));
  }
  const std::string tables = "nuscenes/" + version + "/";
  folder.write(tables + "scene.json", "[" + scenes + "]");
  folder.write(tables + "sample.json", "[" + samples + "]");
  folder.write(tables + "sample_data.json", "[" + scans + "]");
  folder.write(tables + "lidarseg.json", "[" + labels + "]");
}

inline void write_modelnet(const TempFolder& folder) {
  for (const char* part : {"train", "test"}) {
    for (const char* name : {"chair", "desk"}) {
      folder.write(std::string("meshes/") + name + "/" + part + "/" + name + "_1.off",
                   "OFF\n4 2 0\n0 0 0\n1 0 0\n0 1 0\n0 0 1\n3 0 1 2\n3 0 1 3\n");
    }
  }
  folder.write("texts/modelnet10_train.txt", "night_stand_0001\ndesk_0002\n");
  folder.write("texts/modelnet10_test.txt", "night_stand_0003\n");
  folder.write("texts/modelnet10_shape_names.txt", "desk\nnight_stand\n");
  for (const char* shape : {"night_stand_0001", "night_stand_0003"}) {
    folder.write(std::string("texts/night_stand/") + shape + ".txt",
                 "0,0,0,0,0,1\n2,0,0,0,1,0\n9,9,9,1,0,0\n");
  }
  folder.write("texts/desk/desk_0002.txt", "0,0,0,0,0,1\n0,4,0,0,1,0\n");
}

inline void write_points(const TempFolder& folder) {
  for (const char* part : {"train", "test"}) {
    const std::string below = std::string("points/") + part;
    folder.write(below + "/a.xyz", "x y z i label\n1 2 3 0.5 0\n500000 2 3 0.25 9\nnan 1 1 1 1\n");
    folder.write(std::string("folders/") + part + "/tree/a.csv", "1,2,3\n1,2,4\n");
    folder.write(std::string("folders/") + part + "/car/b.csv", "1,2,3\n");
  }
}

/// The beginning of options whose root is a part of a folder.
inline std::string at_root(const TempFolder& folder, const std::string& name) {
  return "{root: " + folder / name;
}

}  // namespace attnlab::testing
