#include "framework/data/formats/torch_file.h"

#include "framework/base/error.h"
#include "framework/data/formats/detail/zip.h"

namespace attnlab {

TorchFile::TorchFile(std::string_view bytes, const std::string& path) {
  std::string_view pickle;
  std::uint64_t total = 0;
  for (const ZipMember& member : zip_members(bytes, path)) {
    if (member.method != 0)
      refuse_member(member, path, "is compressed, which torch.save never does");
    const std::string_view content = packed_bytes(bytes, member, path);
    total += content.size();
    if (total > bytes.size()) refuse_member(member, path, "lies on another one");
    check_sum(content, member, path);
    const std::size_t slash = member.name.find('/');
    if (slash == std::string::npos) continue;
    if (member.name.compare(slash, std::string::npos, "/byteorder") == 0 && content == "big") {
      throw DataError(path +
                      ": was saved with the other order of bytes; save it on a machine with "
                      "the usual one");
    }
    if (member.name.compare(slash, std::string::npos, "/data.pkl") == 0) pickle = content;
    if (member.name.compare(slash, 6, "/data/") == 0) {
      storages_[member.name.substr(slash + 6)] = content;
    }
  }
  if (pickle.data() == nullptr) {
    throw DataError(path +
                    ": holds no data.pkl; it is not a file of torch.save, or it is an old one");
  }
  pickle_.emplace(pickle, path + ": data.pkl", &storages_);
}

}  // namespace attnlab
