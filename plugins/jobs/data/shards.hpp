// The shards of a folder, on any storage, and the small files next to them.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kinora::data {

struct Shard {
  std::string name;  // below the folder: part_000000/shard-000000.tar
  std::string uri;
  uint64_t size = 0;
  int64_t modified = 0;                // nanoseconds since 1970
  std::optional<uint64_t> index_size;  // bytes of its .tar.idx, if there is one
};

struct DataFolder {
  std::string uri;                       // without a slash at its end
  bool is_one_file = false;              // the path is one .tar file, not a folder
  std::vector<Shard> shards;             // by name
  std::map<std::string, uint64_t> meta;  // sizes of the files in .nv-meta, by name

  std::string meta_uri(const std::string& name) const { return uri + "/.nv-meta/" + name; }
  uint64_t bytes() const;
};

// Lists a folder at any depth, or one .tar file. Hidden files and folders are left out. A folder of a web server has
// the shards of its .nv-meta/.info.json. Throws Error: no .tar files, or a name that the files of .nv-meta cannot
// contain.
DataFolder find_shards(const std::string& path);

// Content of a small file; nothing if it does not exist. Throws Error.
std::optional<std::string> read_small(const std::string& uri);
// The file appears complete or not at all; missing folders are made. Throws Error.
void write_small(const std::string& uri, std::string_view text);
// Removes a file that may be gone already. Throws Error.
void remove_file(const std::string& uri);

}  // namespace kinora::data
