// Folders of runs as inputs of fuzz targets: the files of a run one after the other, with "%%"
// between them, in the order of kFiles.
#pragma once

#include <filesystem>
#include <initializer_list>
#include <string>
#include <string_view>

#include "framework/base/error.h"
#include "framework/base/foreign_text.h"
#include "tests/fuzz/files_in_memory.h"

namespace attnlab::fuzz {

/// Of the run, below the folder of all, but for the suite's; pictures last.
inline constexpr const char* kFiles[] = {"status.json",    "environment.json",
                                         "identity.json",  "evaluations/fog-0.json",
                                         "config.yaml",    "metrics.jsonl",
                                         "lock.json",      "stored.json",
                                         "origins.txt",    "lock",
                                         "log.txt",        "../../../suite.json",
                                         "images.json",    "graphs.json",
                                         "boxes.json",     "clouds.json",
                                         "label_maps.json"};
inline constexpr const char* kConfig = "config.yaml";

/// What no page of attnlab's has.
inline const std::string kForeignElement = "<zz>";
/// The same behind a quote, as JSON writes it.
inline const std::string kForeignAttribute = "\\\" zz=";

inline const std::string kStatus =
    R"({"state":"done","step":4,"steps":4,"epoch":1.0,"seconds":2.5,)"
    R"("metrics":{"accuracy":0.5,"nll":null},"reason":"none"})";
inline const std::string kEnvironment =
    R"({"together":2,"threads":1,"machine":{"cpu":"x"},"data":{"fingerprint":"f"},)"
    R"("model":{"id":"lab/m","hash":"1"},"libtorch":{"version":"1"},"attnlab":"1","device":"cpu",)"
    R"("metrics":[{"name":"accuracy","better":"higher","unit":"share"}],"costs":["flops"],)"
    R"("framework":{"revision":"r","numbers":1},"kernels":{"attention":"a","instructions":"i"},)"
    R"("flops":3,"started":"2026-11-27T10:00:00Z",)"
    R"("each":{"the data of evaluation 'fog'":"h"},)"
    R"("resumed":[{"step":2,"together":1,"accepted":["the framework changed"]}]})";
inline const std::string kIdentity =
    R"({"configuration":"a","data":"f","framework":"b","accepted":["c"],"plugins":{)"
    R"("model":{"name":"m","hash":"1"},"attention":{"name":"quest","hash":"2"},)"
    R"("task":{"name":"t","hash":"3"},"dataset":{"name":"d","hash":"4"}}})";
inline const std::string kRecord =
    R"({"entry":"fog","split":"test","state":"done","hash":"0","set":{},"seconds":1,)"
    R"("changes":["the file of attention 'quest' changed"],"written":1700000000000000,)"
    R"("metrics":{"accuracy":0.5},"infos":[{"name":"accuracy","better":"higher","unit":""}]})";
inline const std::string kLines =
    R"({"split":"train","step":1,"epoch":0.5,"loss":0.7})"
    "\n"
    R"({"split":"trace","step":2,"layer":0,"call":1,"entropy":1.5})"
    "\n"
    R"({"split":"trace","step":3,"layer":0,"call":1,"bias":{"first":-1,)"
    R"("heads":[[0.5,null,1e-3],[0,1,-1]]}})"
    "\n"
    R"({"split":"test","step":4,"accuracy":0.5})"
    "\n";
inline const std::string kLock =
    R"({"format":1,"framework":{"version":"1","revision":"b"},"data":["f"],"parts":[)"
    R"({"kind":"model","id":"lab/m","version":"1.0.0","hash":"1"},)"
    R"({"kind":"attention","id":"attnlab/quest","version":"1.0.0","hash":"2"},)"
    R"({"kind":"task","id":"lab/t","version":"1.0.0","hash":"3"},)"
    R"({"kind":"dataset","id":"lab/d","version":"1.0.0","hash":"4"}],)"
    R"("evaluations":{"fog":{"parts":[],"data":"f"}}})";
inline const std::string kSource =
    R"({"from":"x.json","identity":{"configuration":"a","data":"f","framework":"b","numbers":1,)"
    R"("plugins":{"model":{"name":"m","hash":"1","id":"lab/m","version":"1.0.0"}},)"
    R"("judges":{"task lab/t":"1.0.0"},"evaluations":{"fog":{}}}})";
inline const std::string kOrigins =
    "set of attention 'quest' (s.yaml:1:1): model.dim = 8\n"
    "    before, default of model 'm': 4\n"
    "argument 'train.epochs = 1': train.epochs = 1\n"
    "    before, e.yaml:3:9: 2\n"
    "    before, default of train: 100\n"
    "e.yaml:2:7: name = e\n";
inline const std::string kImages =
    R"({"images":[{"index":0,"height":4,"width":4,"class":"a <zz>\" zz= cat","method":"ag_cam",)"
    R"("map":[0,0.5,1,0.25],"columns":2,"versions":[)"
    R"({"name":"clean","image":"iVBORw==","words":"cat, 83 %","wrong":false},)"
    R"({"name":"fog","image":"AAAA","words":"dog","wrong":true}]}]})";
inline const std::string kGraphs =
    R"({"graphs":[{"index":0,"nodes":9,"shown":3,"numbers":[4,5,8],"chosen":1,)"
    R"("edges":[[0,1],[1,2]],"attention":[0.25,0.5,0.25],"answer":"says a, is <zz>\" zz=",)"
    R"("words":["says 2, is 1","b","c"],"wrong":[true,false,false]}]})";
inline const std::string kBoxes =
    R"({"boxes":[{"index":0,"height":8,"width":8,"image":"iVBORw==","prompt":"AAAA",)"
    R"("asked":"shirt","known":[{"box":[1,1,4,5.5],"words":"a <zz>\" zz= shirt"}],)"
    R"("found":[{"box":[0,0,8,8],"words":"shirt 0.91"}],"attention":[0,0.5,0.25,0.25],)"
    R"("columns":2,"stride":4}]})";
inline const std::string kClouds =
    R"({"clouds":[{"index":0,"points":7,"point":2,"patch":1,"answer":"table","chosen":1,)"
    R"("low":[0,0,0],"side":1.5,"classes":["table","a <zz>\" zz= leg"],"most":0.5,"shown":2,)"
    R"("coord":"AAAAAAAA//////8A","label":"AAE=","said":"AQE=","attention":"AP8="}]})";
inline const std::string kLabelMaps =
    R"({"label_maps":[{"index":0,"height":2,"width":3,"labelled":5,"wrong":1,"image":"iVBORw==",)"
    R"("truth":"AAAA","answer":"AAAA","errors":"iVBORw==","classes":[)"
    R"({"name":"a <zz>\" zz= road","colour":"#804080","true":0.5,"said":0.75},)"
    R"({"name":"sky","colour":"#808080","true":0.25,"said":0}]}]})";
inline const std::string kSuite =
    R"({"suite":"s","baseline":"standard","notes":["a note"],"runs":[)"
    R"({"folder":"e/quest/0-0","experiment":"e","attention":"quest","seed":0},)"
    R"({"folder":"e/quest/1-1","experiment":"e","attention":"quest","seed":1},)"
    R"({"folder":"e/standard/0-0","experiment":"e","attention":"standard","seed":0},)"
    R"({"folder":"e/standard/1-1","experiment":"e","attention":"standard","seed":1},)"
    R"({"folder":"f/quest/0-0","experiment":"f","attention":"quest","seed":0},)"
    R"({"folder":"f/standard/0-0","experiment":"f","attention":"standard","seed":0}],)"
    R"("absent":[{"experiment":"e","attention":"sage","seed":0,"kind":"no run","reason":"why"}],)"
    R"("compare":{"test":"t","pair":"seed","correct":"holm","level":0.05,"metric":"headline"},)"
    R"("references":[{"source":"paper","metric":"accuracy","values":{"e":{"quest":"0.5"}}}],)"
    R"("grid":{"pool":["lr"],"points":[{"experiment":"e","base":"b","values":[["lr","0.1"]]},)"
    R"({"experiment":"f","base":"b","values":[["lr","0.2"]]}]},)"
    R"("page":{"title":"a","columns":[{"domain":"d","experiment":"e","metric":"accuracy",)"
    R"("title":"b","role":"quality"}],"claims":[{"attention":"quest","experiment":"e",)"
    R"("metric":"accuracy","says":"better","source":"paper","text":"c"}]}})";
inline const std::string kFailed =
    R"({"state":"failed","step":1,"steps":4,"epoch":0.5,"seconds":1,"metrics":{},)"
    R"("reason":"why <zz>\" zz=, a|b"})";

inline std::string config_of(const std::string& attention, const std::string& seed,
                             const std::string& name = "e") {
  return "schema: 1\nname: " + name + "\nmodel: {use: m, dim: 8}\nattention: {use: " + attention +
         "}\ntask: {use: t}\ndataset: {use: d}\ntrain: {epochs: 1}\nseeds: [" + seed + "]\n";
}

/// e/quest/0-0, which is made of inputs, and beside it those that it is compared with.
struct Runs {
  Runs() {
    std::filesystem::create_directories(run + "/evaluations");
    make_sound("e", "standard", "0");
    make_sound("e", "standard", "1");
    make_sound("e", "quest", "1");
    make_sound("f", "standard", "0");
    make_sound("f", "quest", "0");
  }

  void make_sound(const std::string& name, const std::string& attention,
                  const std::string& seed) const {
    const std::string place = name + "/" + attention + "/" + seed + "-" + seed + "/";
    std::filesystem::create_directories(folder.path() + "/" + place);
    folder.write(place + "config.yaml", config_of(attention, seed, name));
    folder.write(place + "status.json", kStatus);
    folder.write(place + "environment.json", kEnvironment);
    folder.write(place + "metrics.jsonl", kLines);
  }

  /// A file that the input has not is not there; a run's folder has a configuration.
  void write(std::string_view input) const {
    bool more = true;
    for (const char* name : kFiles) {
      const std::size_t cut = input.find("%%");
      const std::string file = std::string("e/quest/0-0/") + name;
      if (more) {
        folder.write(file, input.substr(0, cut));
      } else if (std::string_view(name) == kConfig) {
        folder.write(file, config_of("quest", "0"));
      } else {
        std::filesystem::remove(folder.path() + "/" + file);
      }
      more = more && cut != std::string_view::npos;
      if (more) input.remove_prefix(cut + 2);
    }
  }

  MemoryFolder folder;
  std::string run = folder.path() + "/e/quest/0-0";
};

inline const Runs& runs() {
  static const Runs made;
  return made;
}

inline void check_shown(const std::string& text) {
  if (printable(text) != text) fail("a text that moves cursors: " + printable(text));
}

/// @returns whether it was read; an error names the file.
template <class Read>
bool is_read(Read&& read) {
  try {
    read();
    return true;
  } catch (const Error& error) {
    if (std::string(error.what()).find(runs().folder.path()) != std::string::npos) return false;
    fail(std::string("an error that does not name the file: ") + error.what());
  }
}

inline std::string joined(std::initializer_list<std::string> files) {
  std::string out;
  for (const std::string& file : files) out += (out.empty() ? "" : "%%") + file;
  return out;
}

inline Target target_of_runs() {
  Target target;
  const std::string config = config_of("quest", "0");
  target.seeds = {
      kStatus,
      joined({kStatus, kEnvironment}),
      joined({kStatus, kEnvironment, kIdentity, kRecord, config, kLines, kLock}),
      joined({kStatus, kEnvironment, kIdentity, kRecord, config, kLines, kLock, kSource, kOrigins}),
      joined({kStatus, kEnvironment, kIdentity, kRecord, config, kLines, kLock, kSource, kOrigins,
              R"({"pid":1,"host":"h","boot":"b"})", "last words\n", kSuite, kImages, kGraphs,
              kBoxes, kClouds, kLabelMaps}),
      joined({kFailed, kEnvironment, kIdentity, "", config, kLines, kLock, "{}", kOrigins,
              R"({"pid":1,"host":"h","boot":"b"})", "last words\n", kSuite}),
      joined({kStatus, kEnvironment, kIdentity, kRecord, config,
              R"({"split":"train","step":1e300,"loss":1e308})"}),
      kStatus + "%%{\"together\":\"many\"}",
      "{\"state\":\"running\",\"check\":\"0\"}%%{}",
      kFailed,
      "[]%%[]",
      ""};
  target.words = {"%%",
                  "\"state\":",
                  "\"done\"",
                  "\"resumed\":[{",
                  "\"accepted\":[",
                  "null",
                  "1e999",
                  "1e308",
                  "-1",
                  "{}",
                  "[]",
                  "\"check\":\"\"",
                  "\"lines\":\"x\"",
                  "\"metrics\":{",
                  "\\u001b",
                  kForeignElement,
                  kForeignAttribute,
                  "|",
                  "```",
                  "\"step\":",
                  "\"split\":\"",
                  "\"layer\":",
                  "\"better\":\"lower\"",
                  "\"bias\":{\"first\":0,\"heads\":[[",
                  "\"changes\":[\"",
                  "\"each\":{",
                  "    before, ",
                  "\"words\":\"",
                  "\"grid\":{\"points\":[",
                  "\"page\":{",
                  "seeds: [0]\n",
                  "attention: {use: ",
                  "as: "};
  return target;
}

}  // namespace attnlab::fuzz
