#include "core/io/io.hpp"

#include <algorithm>

#include "core/plugin/options.hpp"
#include "core/plugin/host.hpp"

namespace kinora::core {
namespace {

// A reader or writer of a storage, closed in any case.
struct Handle {
  std::shared_ptr<Store> store;
  void* it = nullptr;
  void (*end)(void*, void*) = nullptr;
  ~Handle() {
    if (it) end(store->self, it);
  }
};

int32_t take_entry(void* user, const kinora_entry* e) {
  return guard([&] {
    static_cast<std::vector<Listed>*>(user)->push_back(
        {std::string(view(e->name)), e->folder != 0, e->size, e->modified});
  });
}

}  // namespace

Store::~Store() {
  if (self) table->destroy(self);
}

void Io::configure(const std::string& scheme, json options) {
  const std::lock_guard lock(mutex_);
  options_[scheme] = std::move(options);
}

json Io::configured() {
  const std::lock_guard lock(mutex_);
  return options_;
}

// The lock protects only the maps: create() belongs to a plugin and may itself read a file of another
// storage.
Result<std::shared_ptr<Store>> Io::store(const std::string& scheme) {
  json given;
  {
    const std::lock_guard lock(mutex_);
    if (const auto it = stores_.find(scheme); it != stores_.end()) return it->second;
    given = options_[scheme];
  }
  const auto component = registry_.open("storage", scheme);
  if (!component) return component.failure();
  const auto options = Options::make(*component->spec, given);
  if (!options) return options.failure();
  auto made = std::make_shared<Store>();
  made->table = &component->table<kinora_storage>();
  made->self = made->table->create(&core_host(), options->abi());
  if (!made->self) return take_error(component->spec->id);
  const std::lock_guard lock(mutex_);
  return stores_.try_emplace(scheme, std::move(made)).first->second;  // another thread may have been first
}

Result<std::vector<Listed>> Io::list(std::string_view text) {
  const auto uri = parse_uri(text);
  if (!uri) return uri.failure();
  const auto where = store(uri->scheme);
  if (!where) return where.failure();
  std::vector<Listed> out;
  const auto& s = **where;
  const auto status = from_abi(s.table->list(s.self, str(uri->path), &out, take_entry), text);
  if (!status) return status.failure();
  std::sort(out.begin(), out.end(), [](const Listed& a, const Listed& b) { return a.name < b.name; });
  return out;
}

// A file from its folder's listing, which has the modification time that opening it does not give.
Result<std::vector<Listed>> Io::list_one(std::string_view text) {
  const size_t slash = text.rfind('/');
  const auto around = list(text.substr(0, slash + 1));
  if (!around) return around.failure();
  for (const auto& entry : *around)
    if (!entry.folder && entry.name == text.substr(slash + 1))
      return std::vector{Listed{"", false, entry.size, entry.modified}};
  return fail(KINORA_NOT_FOUND, "{}: no such file or folder; check the path", text);
}

Result<std::vector<Listed>> Io::list_all(std::string_view text) {
  std::vector<Listed> out;
  const std::string top = std::string(text) + (text.ends_with('/') ? "" : "/");
  for (std::vector<std::string> folders{""}; !folders.empty();) {
    const std::string folder = std::move(folders.back());
    folders.pop_back();
    const auto listed = list(top + folder);
    if (!listed && folder.empty() && listed.failure().code == KINORA_NOT_FOUND && !text.ends_with('/'))
      return list_one(text);
    if (!listed) return listed.failure();
    for (const auto& entry : *listed) {
      const std::string name = folder + entry.name;
      if (entry.folder)
        folders.push_back(name.ends_with('/') ? name : name + "/");
      else
        out.push_back({name, false, entry.size, entry.modified});
    }
  }
  std::sort(out.begin(), out.end(), [](const Listed& a, const Listed& b) { return a.name < b.name; });
  return out;
}

Result<std::string> Io::contents(const std::string& uri) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto it = contents_.find(uri); it != contents_.end()) return it->second;
  }
  const auto files = list_all(uri);
  if (!files) return files.failure();
  std::string out;
  for (const auto& file : *files) out += fmt::format("{} {} {}\n", file.name, file.size, file.modified);
  const std::lock_guard lock(mutex_);
  return contents_[uri] = out;
}

Status Io::remove(std::string_view text) {
  const auto uri = parse_uri(text);
  if (!uri) return uri.failure();
  const auto where = store(uri->scheme);
  if (!where) return where.failure();
  return from_abi((*where)->table->remove((*where)->self, str(uri->path)), text);
}

Result<std::string> Io::read_all(std::string_view text, uint64_t at_most) {
  const auto uri = parse_uri(text);
  if (!uri) return uri.failure();
  const auto where = store(uri->scheme);
  if (!where) return where.failure();
  const auto& table = *(*where)->table;
  Handle reader{*where, nullptr, table.close};
  uint64_t size = 0, got = 0;
  if (const auto s = from_abi(table.open((*where)->self, str(uri->path), &reader.it, &size), text); !s)
    return s.failure();
  if (size > at_most)
    return fail(KINORA_UNSUPPORTED, "{}: {} bytes; at most {} are read into memory at once", text, size,
                at_most);
  std::string out(size, '\0');
  for (uint64_t done = 0; done < size; done += got) {
    const auto s =
        from_abi(table.read((*where)->self, reader.it, done, out.data() + done, size - done, &got), text);
    if (!s) return s.failure();
    if (got == 0)
      return fail(KINORA_DATA, "{}: the file shrank while it was read ({} of {} bytes)", text, done, size);
  }
  return out;
}

Status Io::write_all(std::string_view text, std::string_view bytes) {
  const auto uri = parse_uri(text);
  if (!uri) return uri.failure();
  const auto where = store(uri->scheme);
  if (!where) return where.failure();
  const auto& table = *(*where)->table;
  Handle writer{*where, nullptr, table.abort};
  if (auto s = from_abi(table.begin((*where)->self, str(uri->path), &writer.it), text); !s) return s;
  if (auto s = from_abi(table.append((*where)->self, writer.it, bytes.data(), bytes.size()), text); !s)
    return s;
  return from_abi(table.commit((*where)->self, std::exchange(writer.it, nullptr)), text);
}

}  // namespace kinora::core
