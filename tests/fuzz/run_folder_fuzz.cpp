// Fuzzes what is read of a run's folder: status.json before "%%", environment.json after it; the
// whole input as identity.json and as an evaluation. Whatever the bytes, the answer is a result or
// an error that names the file.
// Code: framework/runs/run_result.cpp framework/runs/run_status.cpp framework/runs/evaluations.cpp
// Code: framework/experiment/identity.cpp
#include "framework/base/files.h"
#include "framework/experiment/identity.h"
#include "framework/runs/run_result.h"
#include "tests/fuzz/files_in_memory.h"

namespace attnlab::fuzz {
namespace {

const MemoryFolder& folder() {
  static const MemoryFolder made;
  return made;
}

}  // namespace

Target target() {
  const std::string status = R"({"state":"done","step":4,"steps":4,"epoch":1.0,"seconds":2.5,)"
                             R"("metrics":{"accuracy":0.5,"nll":null},"reason":"none"})";
  const std::string environment =
      R"({"together":2,"threads":1,"machine":{"cpu":"x"},"data":{"fingerprint":"f"},)"
      R"("metrics":[{"name":"accuracy","better":"higher","unit":"share"}],"costs":["flops"],)"
      R"("flops":3,"resumed":[{"step":2,"together":1,"accepted":["the framework changed"]}]})";
  const std::string record =
      R"({"entry":"fog","split":"test","state":"done","hash":"0","set":{},"seconds":1,)"
      R"("metrics":{"accuracy":0.5},"infos":[]})";
  Target target;
  target.seeds = {status + "%%" + environment,
                  status + "%%",
                  status + "%%{\"together\":\"many\"}",
                  "{\"state\":\"running\",\"check\":\"0\"}%%{}",
                  R"({"format":1,"configuration":"a","framework":"b","accepted":["c"]})",
                  record,
                  "[]%%[]",
                  ""};
  target.words = {"%%",
                  "\"state\":",
                  "\"done\"",
                  "\"resumed\":[{",
                  "\"accepted\":[",
                  "null",
                  "1e999",
                  "-1",
                  "{}",
                  "[]",
                  "\"check\":\"\"",
                  "\"lines\":\"x\"",
                  "\"metrics\":{",
                  "\\u001b"};
  return target;
}

}  // namespace attnlab::fuzz

int attnlab::fuzz::try_input(const std::uint8_t* data, std::size_t size) {
  using namespace attnlab;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const fuzz::MemoryFolder& folder = fuzz::folder();
  const auto [status, environment] = fuzz::halves(input);
  std::filesystem::create_directory(folder.path() + "/evaluations");
  folder.write("status.json", status);
  folder.write("environment.json", environment);
  folder.write("identity.json", input);
  folder.write("evaluations/fog-0.json", input);
  const auto named = [&](const std::exception& error) {
    if (std::string(error.what()).rfind(folder.path(), 0) == 0) return;
    fuzz::fail(std::string("an error that does not name the file: ") + error.what());
  };
  try {
    read_identity(folder.path());
  } catch (const Error& error) {
    named(error);
  }
  try {
    read_result(folder.path());
    return 0;
  } catch (const Error& error) {
    named(error);
    return -1;
  }
}
