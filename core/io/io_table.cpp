// kinora.io/1: the view of Io that plugins get.
#include <atomic>

#include "core/io/io.hpp"
#include "core/plugin/host.hpp"

struct kinora_reader {
  std::shared_ptr<kinora::core::Store> store;
  void* reader = nullptr;
  uint64_t size = 0;
};

struct kinora_writer {
  std::shared_ptr<kinora::core::Store> store;
  void* writer = nullptr;
};

namespace kinora::core {
namespace {

std::atomic<Io*> served = nullptr;

struct Target {
  Uri uri;
  std::shared_ptr<Store> store;
};

Target target(kinora_str text) {
  Io* io = served;
  if (!io) throw Error(KINORA_UNSUPPORTED, "this program does not offer files through kinora.io/1");
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
    *out = w.release();
  });
}

int32_t write(kinora_writer* w, const void* data, uint64_t bytes) {
  return w->store->table->append(w->store->self, w->writer, data, bytes);
}

int32_t commit(kinora_writer* w) {
  const std::unique_ptr<kinora_writer> ended(w);
  return w->store->table->commit(w->store->self, w->writer);
}

void abort_writer(kinora_writer* w) {
  if (w) w->store->table->abort(w->store->self, w->writer);
  delete w;
}

}  // namespace

void serve_io(Io* io) {
  static const kinora_io_api table{sizeof(kinora_io_api), 0, open, size, read, close, create, write, commit,
                                   abort_writer};
  served = io;
  register_interface(KINORA_IO_API, 0, &table);
}

Io* served_io() { return served; }

}  // namespace kinora::core
