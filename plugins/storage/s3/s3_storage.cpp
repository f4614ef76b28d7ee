#include "plugins/storage/s3/s3_storage.hpp"

#include <algorithm>
#include <atomic>
#include <deque>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "kinora/storage.hpp"
#include "plugins/storage/ranged/reader.hpp"
#include "plugins/storage/s3/client.hpp"

namespace kinora::s3 {
namespace {

class S3Object final : public ranged::RangedObject {
 public:
  S3Object(std::shared_ptr<Client> client, ObjectPath at) : client_(std::move(client)), at_(std::move(at)) {}
  Start open(uint64_t most) override {
    Opened opened = client_->open(at_, most);
    etag_ = std::move(opened.etag);
    return {opened.size, std::move(opened.first)};
  }
  void read(uint64_t offset, uint64_t size, char* to, const std::atomic<bool>* stop) override {
    client_->read(at_, offset, size, to, etag_, stop);
  }

 private:
  std::shared_ptr<Client> client_;
  ObjectPath at_;
  std::string etag_;
};

// A new object. If it fits into one part, it is one PUT; otherwise a multipart upload, `parallel` parts at a
// time, so a writer holds at most (parallel + 1) parts. The object appears complete at the end: S3 has no
// partially written objects. A process that is killed leaves no object, but its uploaded parts stay on the
// server until they are removed there (a lifecycle rule, see README).
class S3Writer final : public StorageWriter {
 public:
  S3Writer(std::shared_ptr<Client> client, ObjectPath at);
  S3Writer(const S3Writer&) = delete;
  S3Writer& operator=(const S3Writer&) = delete;
  ~S3Writer() override;  // without commit(): no object, and no parts
  void append(const void* data, uint64_t size) override;
  void commit() override;

 private:
  void send_part();
  void wait_for_first();

  std::shared_ptr<Client> client_;
  ObjectPath at_;
  uint64_t part_size_, size_ = 0;
  std::string part_;  // the part that is being filled
  Upload upload_;
  std::atomic<bool> stop_{false};
  std::deque<std::future<std::string>> sending_;
  std::vector<std::string> etags_;
};

constexpr size_t kMostParts = 10'000;  // limit of S3
constexpr size_t kSmall = 1 << 20;

S3Writer::S3Writer(std::shared_ptr<Client> client, ObjectPath at)
    : client_(std::move(client)),
      at_(std::move(at)),
      part_size_(static_cast<uint64_t>(client_->options().part_size)) {
  if (at_.key.ends_with('/'))
    throw Error(KINORA_ERROR_INVALID,
                at_.uri() + ": cannot be written: it is the name of a folder; give that of an object");
}

S3Writer::~S3Writer() {
  stop_ = true;
  for (auto& part : sending_) part.wait();  // a part that arrives after the abort would stay
  if (upload_.id.empty()) return;
  try {
    client_->abort_upload(at_, upload_);
  } catch (const std::exception& e) {
    log(Log::warn, std::string(e.what()) + "; its parts stay on the server, remove them there (upload " +
                       upload_.id + ")");
  }
}

void S3Writer::append(const void* data, uint64_t size) {
  const char* from = static_cast<const char*>(data);
  while (size > 0) {
    if (part_.size() == part_size_) send_part();
    const uint64_t n = std::min(size, part_size_ - part_.size());
    if (part_.size() + n > kSmall)
      part_.reserve(part_size_);  // growth by doubling could take twice the memory
    part_.append(from, n);
    from += n, size -= n, size_ += n;
  }
}

void S3Writer::wait_for_first() {
  auto first = std::move(sending_.front());
  sending_.pop_front();
  etags_.push_back(first.get());
}

void S3Writer::send_part() {
  if (upload_.id.empty()) upload_ = client_->begin_upload(at_);
  if (sending_.size() == static_cast<size_t>(client_->options().parallel)) wait_for_first();
  const size_t number = etags_.size() + sending_.size() + 1;
  if (number > kMostParts)
    throw Error(KINORA_ERROR_INVALID,
                at_.uri() +
                    ": cannot be written: S3 allows 10,000 parts and this is larger; raise "
                    "part_size in [storage.s3]");
  sending_.push_back(std::async(std::launch::async, [this, number, bytes = std::exchange(part_, {})] {
    return client_->put_part(at_, upload_, static_cast<int64_t>(number), bytes, &stop_);
  }));
}

void S3Writer::commit() {
  if (upload_.id.empty()) return client_->put(at_, part_);
  send_part();
  while (!sending_.empty()) wait_for_first();
  client_->complete_upload(at_, upload_, etags_, size_);
  upload_ = {};
}

// The part of a name after the folder's, or an Error: a server must not list names outside the folder.
std::string inside(const ObjectPath& folder, const std::string& name) {
  if (!name.starts_with(folder.key))
    throw Error(KINORA_ERROR_DATA, folder.uri() + ": cannot be listed: the server gave '" +
                                       name.substr(0, 256) + "', which is not in it");
  return name.substr(folder.key.size());
}

// Passes one page to `each`; returns its status if that ended the listing.
int32_t give(const ObjectPath& folder, const Listing& page, const Storage::Each& each) {
  for (const auto& object : page.objects) {
    const std::string name = inside(folder, object.key);
    if (name.empty()) continue;  // an empty object that some programs create for a folder
    const kinora_entry entry{sizeof(kinora_entry), 0, str(name), object.size, object.modified};
    if (const int32_t status = each(entry); status != KINORA_OK) return status;
  }
  for (const auto& prefix : page.prefixes) {
    std::string name = inside(folder, prefix);
    if (name.empty()) continue;
    if (name.size() > 1) name.pop_back();  // "/": the empty name in "a//b" can only be written as its slash
    const kinora_entry entry{sizeof(kinora_entry), 1, str(name), 0, 0};
    if (const int32_t status = each(entry); status != KINORA_OK) return status;
  }
  return KINORA_OK;
}

}  // namespace

void S3Storage::describe(Describe<Options>& d) {
  d.name("s3").help("Objects of Amazon S3 and servers like it, s3://BUCKET/KEY");
  d.option("endpoint", &Options::endpoint)
      .help("the server's address, as https://s3.example.org; empty: AWS_ENDPOINT_URL_S3, else AWS itself");
  d.option("region", &Options::region)
      .help("the bucket's region; empty: AWS_REGION, the profile's, else us-east-1");
  d.option("path_style", &Options::path_style)
      .choices({"auto", "on", "off"})
      .help("the bucket in the path, not in the host's name; auto: on for any endpoint but AWS");
  d.option("profile", &Options::profile)
      .help(
          "profile in ~/.aws/credentials and ~/.aws/config; empty: the keys of the environment, else "
          "AWS_PROFILE");
  d.option("anonymous", &Options::anonymous).help("no credentials, for public buckets");
  d.option("ca_file", &Options::ca_file).path().help("certificates to trust instead of the system's");
  d.option("connect_timeout", &Options::connect_timeout)
      .range(0.1, 3600)
      .unit("s")
      .help("longest time to connect");
  d.option("timeout", &Options::timeout)
      .range(1, 86400)
      .unit("s")
      .help("time with fewer than 1000 bytes/s from or to the server after which a request is repeated");
  d.option("retries", &Options::retries)
      .range(0, 100)
      .help("successive retries of a request, with growing random pauses between them");
  d.option("part_size", &Options::part_size)
      .bytes()
      .range(5 << 20, int64_t{5} << 30)
      .help("size of the parts of an upload; an object that is not larger is sent at once");
  d.option("parallel", &Options::parallel)
      .range(1, 64)
      .help("simultaneous requests of one upload or large read");
  d.option("read_ahead", &Options::read_ahead)
      .bytes()
      .range(1 << 20, 1 << 30)
      .help("bytes that one reader may hold; a quarter of it is fetched ahead during sequential reads");
}

std::unique_ptr<StorageReader> S3Storage::open(std::string_view path) {
  const Options& options = client_->options();
  return std::make_unique<ranged::RangedReader>(std::make_unique<S3Object>(client_, object_named(path)),
                                                static_cast<uint64_t>(options.read_ahead),
                                                static_cast<uint64_t>(options.parallel));
}

std::unique_ptr<StorageWriter> S3Storage::begin(std::string_view path) {
  return std::make_unique<S3Writer>(client_, object_named(path));
}

int32_t S3Storage::list(std::string_view path, const Each& each) {
  ObjectPath folder = object_path(path);
  if (!folder.key.empty() && !folder.key.ends_with('/')) folder.key += '/';
  bool is_empty = true;
  std::string token;
  do {
    Listing page = client_->list(folder, token);
    is_empty = is_empty && page.objects.empty() && page.prefixes.empty();
    if (const int32_t status = give(folder, page, each); status != KINORA_OK) return status;
    if (!page.next.empty() && page.next == token)
      throw Error(KINORA_ERROR_DATA, folder.uri() + ": cannot be listed: the server repeats one page");
    token = std::move(page.next);
  } while (!token.empty());
  if (is_empty && !folder.key.empty())
    throw Error(KINORA_ERROR_NOT_FOUND, folder.uri() + ": no object's name begins with it; check the path");
  return KINORA_OK;
}

void S3Storage::remove(std::string_view path) { client_->remove(object_named(path)); }

// The answer to a try that has written may be lost; the next try is then refused, and finds its own bytes.
std::optional<std::string> S3Storage::put_if(std::string_view path, std::string_view bytes,
                                             std::string_view tag) {
  if (bytes.size() > KINORA_STORAGE_SMALL)
    throw Error(KINORA_ERROR_INVALID, std::string(path) + ": more than " +
                                          std::to_string(KINORA_STORAGE_SMALL) +
                                          " bytes cannot be written on a condition");
  if (auto made = client_->put_if(object_named(path), bytes, std::string(tag))) return made;
  try {
    SmallObject now = read_small(path);
    return now.bytes == bytes ? std::optional(std::move(now.tag)) : std::nullopt;
  } catch (const Error& e) {
    if (e.code() == KINORA_ERROR_NOT_FOUND || e.code() == KINORA_ERROR_UNSUPPORTED) return std::nullopt;
    throw;
  }
}

SmallObject S3Storage::read_small(std::string_view path) {
  const ObjectPath at = object_named(path);
  Opened opened = client_->open(at, KINORA_STORAGE_SMALL);
  if (opened.size > KINORA_STORAGE_SMALL)
    throw Error(KINORA_ERROR_UNSUPPORTED,
                at.uri() + ": it is larger than " + std::to_string(KINORA_STORAGE_SMALL) + " bytes");
  if (opened.etag.empty() || opened.first.size() != opened.size)
    throw Error(KINORA_ERROR_DATA, at.uri() + ": cannot be read: the server gave " +
                                       std::to_string(opened.first.size()) + " of " +
                                       std::to_string(opened.size) + " bytes, with ETag '" +
                                       opened.etag.substr(0, 64) + "'");
  return {std::move(opened.first), std::move(opened.etag)};
}

bool S3Storage::remove_if(std::string_view path, std::string_view tag) {
  return client_->remove_if(object_named(path), std::string(tag));
}

int32_t S3Storage::list_from(std::string_view path, std::string_view after, uint64_t most, const Each& each) {
  ObjectPath folder = object_path(path);
  if (!folder.key.empty() && !folder.key.ends_with('/')) folder.key += '/';
  std::string last = after.empty() ? "" : folder.key + std::string(after);
  while (most > 0) {
    const Listing page = client_->list_from(folder, last, most);
    for (const auto& object : page.objects) {
      if (!last.empty() && object.key <= last)
        throw Error(KINORA_ERROR_DATA,
                    folder.uri() + ": cannot be listed: the server gave '" + object.key.substr(0, 256) +
                        "' after '" + last.substr(0, 256) +
                        "'; directory buckets have no order, use a general purpose bucket");
      last = object.key;
    }
    if (page.objects.size() > most)
      throw Error(KINORA_ERROR_DATA,
                  folder.uri() + ": cannot be listed: the server gave more than was asked for");
    // give() leaves out the empty object that some programs create for the folder.
    for (const auto& object : page.objects) most -= object.key == folder.key ? 0 : 1;
    if (const int32_t status = give(folder, page, each); status != KINORA_OK) return status;
    if (page.next.empty() || page.objects.empty()) break;
  }
  return KINORA_OK;
}

}  // namespace kinora::s3
