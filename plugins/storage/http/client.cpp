#include "plugins/storage/http/client.hpp"

#include "kinora/error.hpp"
#include "kinora/io.hpp"
#include "plugins/storage/http/failure.hpp"

namespace kinora::web {

using ranged::HttpAnswer;
using ranged::HttpRequest;
using ranged::Tries;

Client::Client(const Options& options)
    : options_(options), http_({options.ca_file, options.connect_timeout, options.timeout, true}) {}

Client::~Client() {
  if (repeated_ > 0)
    log(Log::info, "http: " + std::to_string(repeated_) + " of this process's " + std::to_string(requests_) +
                       " requests to web servers were repeated");
}

HttpAnswer Client::perform(const HttpRequest& request) {
  ++requests_;
  return http_.perform(request);
}

void Client::retry_or_throw(const Address& at, const HttpAnswer& answer, Tries& tries,
                            const std::atomic<bool>* stop) {
  const bool again = answer.is_ok() || is_worth_repeating(answer);
  if (again && is_nobody(answer) && options_.retries > 0 && !told_.exchange(true))
    log(Log::warn, at.uri + ": cannot be read: " + answer.problem + "; trying again, " +
                       std::to_string(options_.retries) + " times at most");
  if (again && tries.another(answer, stop)) {
    ++repeated_;
    log(Log::debug, at.uri + ": a request failed (" + cause_of(answer) + "), once more");
    return;
  }
  if (ranged::is_stopped(stop)) throw Error(KINORA_ERROR_CANCELLED, "cancelled");
  throw failure(at.uri, answer, tries.count());
}

Client::About Client::about(const Address& at) {
  HttpRequest head;
  head.method = "HEAD";
  head.url = at.url;
  Tries tries(options_.retries);
  for (;;) {
    const HttpAnswer a = perform(head);
    if (!a.is_ok()) {
      retry_or_throw(at, a, tries);
      continue;
    }
    if (a.url.ends_with('/')) refuse_folder(at.uri);
    const auto size = length_of(a);
    if (!size)
      throw Error(
          KINORA_ERROR_UNSUPPORTED,
          at.uri + ": cannot be read: the server does not say how large it is; use a server of files");
    return {*size, ranged::server_time(a.header("last-modified"))};
  }
}

void refuse_folder(const std::string& uri) {
  throw Error(
      KINORA_ERROR_UNSUPPORTED,
      uri +
          ": a web server does not list its folders; for shards, run `kinora data index` where they are "
          "and upload .nv-meta, else give the address of each file");
}

HttpAnswer WebFile::get(uint64_t offset, uint64_t size, char* to, const std::atomic<bool>* stop) {
  HttpRequest r;
  r.url = at_.url;
  r.range = ranged::bytes_from(offset, size);
  r.to = to;
  r.room = size;
  r.stop = stop;
  return client_->perform(r);
}

void WebFile::refuse_whole_files() const {
  throw Error(
      KINORA_ERROR_UNSUPPORTED,
      at_.uri +
          ": cannot be read: the server sends only whole files, not ranges of them (HTTP 200 instead of "
          "206); use one that does, such as nginx, Apache or Caddy, or copy the files here");
}

ranged::RangedObject::Start WebFile::open(uint64_t most) {
  Start out;
  Tries tries(client_->options().retries);
  for (;;) {
    out.first.resize(most);
    const HttpAnswer a = get(0, most, out.first.data(), nullptr);
    if (a.code == CURLE_OK && (a.status == 416 || (a.status == 200 && length_of(a) == 0)))
      return {};  // it is empty: no byte 0
    if (a.status == 200) refuse_whole_files();
    const auto span = span_of(a);
    if (a.is_ok() && span && span->begin == 0 && a.got > 0) {
      out.first.resize(a.got);
      out.size = size_ = span->total;
      etag_ = a.header("etag");
      modified_ = a.header("last-modified");
      return out;
    }
    client_->retry_or_throw(at_, a, tries);
  }
}

void WebFile::check_version(const HttpAnswer& a) const {
  const auto differs = [](const std::string& x, const std::string& y) {
    return !x.empty() && !y.empty() && x != y;
  };
  const std::string etag = a.header("etag");
  const bool has_etags = !etag_.empty() && !etag.empty();
  const auto span = span_of(a);
  const bool is_changed = a.status == 416 || (span && span->total != size_) || differs(etag_, etag) ||
                          (!has_etags && differs(modified_, a.header("last-modified")));
  if (is_changed)
    throw Error(KINORA_ERROR_DATA,
                at_.uri +
                    ": cannot be read: it was changed while it was read; do not write to what "
                    "a run reads");
}

void WebFile::read(uint64_t offset, uint64_t size, char* to, const std::atomic<bool>* stop) {
  Tries tries(client_->options().retries);
  for (uint64_t done = 0; done < size;) {
    HttpAnswer a = get(offset + done, size - done, to + done, stop);
    if (a.status == 200) refuse_whole_files();
    if (a.status == 206 || a.status == 416) check_version(a);
    const auto span = span_of(a);
    if (a.status == 206 && span && span->begin == offset + done) {
      done += a.got;  // also when the connection broke
      if (done == size || tries.goes_on(a)) continue;
    }
    client_->retry_or_throw(at_, a, tries, stop);
  }
}

}  // namespace kinora::web
