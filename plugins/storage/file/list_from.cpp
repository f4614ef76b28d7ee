// All files below a folder in the order of their names' bytes, from a name on.
#include <algorithm>
#include <vector>

#include <sys/stat.h>

#include "plugins/storage/file/file_storage.hpp"
#include "plugins/storage/file/local_path.hpp"

namespace kinora::file {
namespace {

struct FlatEntry {
  std::string name;  // of a folder with a slash at its end: so it sorts as the names in it do
  uint64_t size;
  int64_t modified;
};

// One listing: the entries of the folders on the way to the current one are in memory, and no others.
class FlatListing {
 public:
  FlatListing(FileStorage& storage, std::string top, std::string_view after, uint64_t most,
              const Storage::Each& each)
      : storage_(storage), top_(std::move(top)), after_(after), left_(most), each_(each) {}

  // prefix: "" or a folder below the top, with its slash. Returns the status that ended it.
  int32_t list(const std::string& prefix) {
    for (const FlatEntry& entry : entries_of(prefix)) {
      if (left_ == 0) return KINORA_OK;
      const std::string name = prefix + entry.name;
      int32_t status = KINORA_OK;
      if (name.ends_with('/')) {
        // All names in the folder begin with its own: they are on one side of `after`, unless it does too.
        if (name > after_ || after_.starts_with(name)) status = list(name);
      } else if (name > after_) {
        const kinora_entry one{sizeof(kinora_entry), 0, str(name), entry.size, entry.modified};
        --left_;
        status = each_(one);
      }
      if (status != KINORA_OK) return status;
    }
    return KINORA_OK;
  }

 private:
  std::vector<FlatEntry> entries_of(const std::string& prefix) {
    std::vector<FlatEntry> out;
    const std::string folder = top_ + prefix;
    try {
      storage_.list(folder, [&](const kinora_entry& e) {
        std::string name(view(e.name));
        struct stat info {};
        const bool is_link = ::lstat((folder + name).c_str(), &info) == 0 && S_ISLNK(info.st_mode);
        if (!e.folder || !is_link) out.push_back({e.folder ? name + "/" : name, e.size, e.modified});
        return KINORA_OK;
      });
    } catch (const Error& e) {
      if (e.code() != KINORA_ERROR_NOT_FOUND) throw;  // it is empty, or was removed meanwhile
    }
    std::sort(out.begin(), out.end(), [](const FlatEntry& a, const FlatEntry& b) { return a.name < b.name; });
    return out;
  }

  FileStorage& storage_;
  const std::string top_, after_;
  uint64_t left_;
  const Storage::Each& each_;
};

}  // namespace

int32_t FileStorage::list_from(std::string_view path, std::string_view after, uint64_t most,
                               const Each& each) {
  std::string top = local_path(path);
  if (!top.ends_with('/')) top += '/';
  return FlatListing(*this, std::move(top), after, most, each).list("");
}

}  // namespace kinora::file
