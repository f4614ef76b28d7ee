#include "core/io/io.hpp"

#include <algorithm>
#include <atomic>
#include <cctype>
#include <csignal>

#include "core/base/cancel.hpp"
#include "core/base/paths.hpp"
#include "core/io/fence.hpp"
#include "core/plugin/host.hpp"
#include "core/plugin/options.hpp"
#include "kinora/webdataset_files.hpp"

struct kinora_reader {
  std::shared_ptr<kinora::core::Store> store;
  void* reader = nullptr;
  uint64_t size = 0;
};

struct kinora_writer {
  std::shared_ptr<kinora::core::Store> store;
  void* writer = nullptr;
  std::string file;  // of this machine; empty: elsewhere
};

namespace kinora::core {
namespace {

constexpr std::chrono::milliseconds kInterruptEvery(50);

// A reader or writer of a storage, closed in any case.
struct Handle {
  std::shared_ptr<Store> store;
  void* it = nullptr;
  void (*end)(void*, void*) = nullptr;
  ~Handle() {
    if (it) end(store->self, it);
  }
};

bool can_be_interrupted(const Store& store) {
  return KINORA_HAS(store.table, interrupt) && store.table->interrupt;
}

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

// The lock protects only the maps: create() belongs to a plugin and may itself read a file of another storage.
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
  try {
    made->self =
        core::made([&] { return made->table->create(&core_host(), options->abi()); }, component->spec->id);
  } catch (const Error& e) {
    return Failure{e.code(), e.what()};
  }
  const std::lock_guard lock(mutex_);
  if (can_be_interrupted(*made) && !interrupts_.joinable()) {
    sigset_t all, before;  // a signal that this thread took would not reach a signalfd (kinora launch)
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    interrupts_ = std::jthread([this](const std::stop_token& end) { interrupt_when_cancelled(end); });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  return stores_.try_emplace(scheme, std::move(made)).first->second;  // another thread may have been first
}

// Again and again, for calls that begin after the run was asked to stop.
void Io::interrupt_when_cancelled(const std::stop_token& end) {
  for (; !end.stop_requested(); std::this_thread::sleep_for(kInterruptEvery)) {
    if (!cancelled()) continue;
    std::map<std::string, std::shared_ptr<Store>> all;
    {
      const std::lock_guard lock(mutex_);
      all = stores_;
    }
    for (const auto& [scheme, store] : all)
      if (can_be_interrupted(*store)) store->table->interrupt(store->self);
  }
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
  return fail(KINORA_ERROR_NOT_FOUND, "{}: no such file or folder; check the path", text);
}

// The index of a folder of shards stands for them; a file stands for itself.
Result<std::vector<Listed>> Io::list_index(std::string_view text) {
  const std::string path(text.substr(0, text.find_last_not_of('/') + 1));
  for (const char* index : {"/.nv-meta/.info.json", "/index.json", ""}) {
    auto found = list(path + index);
    if (found || found.failure().code != KINORA_ERROR_NOT_FOUND) return found;
  }
  return list(path + "/");  // which says what to do
}

Result<std::vector<Listed>> Io::list_all(std::string_view text) {
  if (is_web(text)) return list(text);
  std::vector<Listed> out;
  const std::string top = std::string(text) + (text.ends_with('/') ? "" : "/");
  for (std::vector<std::string> folders{""}; !folders.empty();) {
    const std::string folder = std::move(folders.back());
    folders.pop_back();
    const auto listed = list(top + folder);
    if (!listed && folder.empty() && listed.failure().code == KINORA_ERROR_NOT_FOUND && !text.ends_with('/'))
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

// The files that a pattern in braces names, from one listing of each folder; a web server is asked for each.
Result<std::vector<Listed>> Io::list_named(const std::string& pattern) {
  std::map<std::string, std::vector<Listed>> folders;
  std::vector<Listed> out;
  const auto names = catching([&] { return expand_braces(pattern); });
  if (!names) return names.failure();
  for (const auto& name : *names) {
    if (is_web(name)) {
      const auto file = list(name);
      if (!file) return file.failure();
      for (const auto& entry : *file) out.push_back({name, false, entry.size, entry.modified});
      continue;
    }
    const std::string folder = name.substr(0, name.rfind('/') + 1);
    if (!folders.contains(folder)) {
      auto listed = list(folder);
      if (!listed) return listed.failure();
      folders[folder] = *std::move(listed);
    }
    const auto& files = folders[folder];
    const auto at = std::lower_bound(files.begin(), files.end(), name.substr(folder.size()),
                                     [](const Listed& a, const std::string& b) { return a.name < b; });
    if (at == files.end() || folder + at->name != name)
      return fail(KINORA_ERROR_NOT_FOUND,
                  "{}: no such file, but {} names it; fix the pattern, or copy the file", name, pattern);
    out.push_back({name, false, at->size, at->modified});
  }
  return out;
}

Result<std::string> Io::contents(const std::string& uri) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto it = contents_.find(uri); it != contents_.end()) return it->second;
  }
  const bool is_pattern = uri.find('{') != uri.npos;
  const auto files = is_pattern ? list_named(uri) : is_web(uri) ? list_index(uri) : list_all(uri);
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
    return fail(KINORA_ERROR_UNSUPPORTED, "{}: {} bytes; at most {} are read into memory at once", text, size,
                at_most);
  std::string out(size, '\0');
  for (uint64_t done = 0; done < size; done += got) {
    const auto s =
        from_abi(table.read((*where)->self, reader.it, done, out.data() + done, size - done, &got), text);
    if (!s) return s.failure();
    if (got == 0)
      return fail(KINORA_ERROR_DATA, "{}: the file shrank while it was read ({} of {} bytes)", text, done,
                  size);
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

namespace {

int hex(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

std::string percent_decoded(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool coded =
        text[i] == '%' && i + 2 < text.size() && hex(text[i + 1]) >= 0 && hex(text[i + 2]) >= 0;
    out += coded ? static_cast<char>(hex(text[i + 1]) * 16 + hex(text[i + 2])) : text[i];
    if (coded) i += 2;
  }
  return out;
}

// rest: what follows "https://".
Status check_no_secret(const std::string& scheme, std::string_view rest) {
  std::string_view host = rest.substr(0, rest.find_first_of("/?#"));
  const size_t at = host.rfind('@');
  if (at != host.npos) {
    host.remove_prefix(at + 1);
    return fail(
        KINORA_ERROR_INVALID,
        "{}://***@{}/...: logs would show the name and password in the address; leave them out, and put "
        "'machine {} login NAME password PASSWORD' into ~/.netrc",
        scheme, host, host.substr(0, host.find(':')));
  }
  if (rest.find_first_of("?#") != rest.npos)
    return fail(
        KINORA_ERROR_INVALID,
        "{}://{}/...: the address has a query ('?') or fragment ('#'), which may be a secret that logs would "
        "show; give one without, or copy the file here",
        scheme, host);
  return {};
}

}  // namespace

bool is_web(std::string_view text) {
  const auto uri = parse_uri(text);
  return uri && (uri->scheme == "http" || uri->scheme == "https");
}

Result<Uri> parse_uri(std::string_view text) {
  if (text.empty())
    return fail(KINORA_ERROR_INVALID, "an empty path; give a file, or a URI such as s3://bucket/key");
  if (text.find('\0') != text.npos) return fail(KINORA_ERROR_INVALID, "a path with a NUL byte in it");
  if (text.starts_with("asset:")) {
    const auto found = find_asset(text.substr(6));
    if (!found) return found.failure();
    return Uri{"file", found->string()};
  }
  const auto at = text.find("://");
  if (at == text.npos || at == 0) return Uri{"file", std::string(text)};
  std::string scheme;
  for (const char c : text.substr(0, at)) {
    // Not a scheme but an odd file name.
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '+' && c != '-' && c != '.')
      return Uri{"file", std::string(text)};
    scheme += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  const auto rest = text.substr(at + 3);
  if (scheme == "http" || scheme == "https")
    if (const auto status = check_no_secret(scheme, rest); !status) return status.failure();
  if (scheme != "file") return Uri{scheme, std::string(rest)};
  const auto path = rest.starts_with("localhost/") ? rest.substr(9) : rest;
  if (!path.starts_with('/'))
    return fail(KINORA_ERROR_INVALID, "{}: a file URI has three slashes, file:///folder/name", text);
  return Uri{"file", percent_decoded(path)};
}

// kinora.io/1: the view of Io that plugins get.
namespace {

std::atomic<Io*> served = nullptr;

struct Target {
  Uri uri;
  std::shared_ptr<Store> store;
};

Target target(kinora_str text) {
  Io* io = served;
  if (!io) throw Error(KINORA_ERROR_UNSUPPORTED, "this program does not offer files through kinora.io/1");
  Target out;
  out.uri = or_throw(parse_uri(view(text)));
  out.store = or_throw(io->store(out.uri.scheme));
  return out;
}

int32_t open(kinora_str uri, kinora_reader** out) {
  return guard([&] {
    auto t = target(uri);
    auto r = std::make_unique<kinora_reader>();
    check(t.store->table->open(t.store->self, str(t.uri.path), &r->reader, &r->size));
    r->store = std::move(t.store);
    *out = r.release();
  });
}

int64_t size(kinora_reader* r) { return static_cast<int64_t>(r->size); }

int32_t read(kinora_reader* r, uint64_t offset, void* to, uint64_t bytes, uint64_t* got) {
  return r->store->table->read(r->store->self, r->reader, offset, to, bytes, got);
}

void close(kinora_reader* r) {
  if (r) r->store->table->close(r->store->self, r->reader);
  delete r;
}

int32_t create(kinora_str uri, kinora_writer** out) {
  return guard([&] {
    auto t = target(uri);
    auto w = std::make_unique<kinora_writer>();
    check(t.store->table->begin(t.store->self, str(t.uri.path), &w->writer));
    w->store = std::move(t.store);
    if (t.uri.scheme == "file") w->file = t.uri.path;
    *out = w.release();
  });
}

int32_t write(kinora_writer* w, const void* data, uint64_t bytes) {
  return w->store->table->append(w->store->self, w->writer, data, bytes);
}

int32_t commit(kinora_writer* w) {
  const std::unique_ptr<kinora_writer> ended(w);
  if (!w->file.empty()) {
    const int32_t status = guard([&] { or_throw(core::may_publish(w->file)); });
    if (status != KINORA_OK) return w->store->table->abort(w->store->self, w->writer), status;
  }
  return w->store->table->commit(w->store->self, w->writer);
}

void abort_writer(kinora_writer* w) {
  if (w) w->store->table->abort(w->store->self, w->writer);
  delete w;
}

int32_t list(kinora_str uri, void* user, int32_t (*each)(void*, const kinora_entry*)) {
  Target t;
  const int32_t status = guard([&] { t = target(uri); });
  return status == KINORA_OK ? t.store->table->list(t.store->self, str(t.uri.path), user, each) : status;
}

int32_t remove(kinora_str uri) {
  Target t;
  const int32_t status = guard([&] { t = target(uri); });
  return status == KINORA_OK ? t.store->table->remove(t.store->self, str(t.uri.path)) : status;
}

}  // namespace

void serve_io(Io* io) {
  static const kinora_io_api table{
      sizeof(kinora_io_api), 0, open, size, read, close, create, write, commit, abort_writer, list, remove};
  served = io;
  register_interface(KINORA_INTERFACE_IO, KINORA_ABI_MINOR, &table);
}

Io* served_io() { return served; }

}  // namespace kinora::core
