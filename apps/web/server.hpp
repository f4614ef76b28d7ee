// A small HTTP/1.1 server on loopback for pages and APIs of this machine's user. Whatever a client sends is
// bounded in bytes, connections and time before a handler sees it, and no client's slowness holds a thread.
#pragma once
#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/web/socket.hpp"

namespace kinora::web {

using Parameters = std::multimap<std::string, std::string>;
using Headers = std::vector<std::pair<std::string, std::string>>;

// A file that ends with this object.
class TemporaryFile {
 public:
  // An empty one in the folder. Throws Error(KINORA_ERROR_IO), or Error(KINORA_ERROR_NO_MEMORY) for a full disk.
  explicit TemporaryFile(const std::filesystem::path& folder);
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile();
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

struct Request {
  std::string method, path;                                 // the path as it was sent, without its parameters
  std::map<std::string, std::string> places;                // of a route with places: {"id": "video_1"}
  Parameters parameters;                                    // decoded
  std::map<std::string, std::string, std::less<>> headers;  // names in lower case
  std::string body;                                         // empty while the guard is asked
  std::shared_ptr<const TemporaryFile> upload;              // instead of `body`, for a route of uploads
  // User id of the process at the other end; "" where the system does not say. The first call of a connection reads the
  // system's whole table of sockets, so ask only for who has shown a secret.
  std::function<std::string()> owner;
  // Whether the client has closed its end, as far as the system knows now: for a handler that waits.
  std::function<bool()> is_gone;

  std::string header(std::string_view lower_case_name) const;
  std::string parameter(const std::string& name) const;  // the first of this name, or ""
};

struct Answer {
  int status = 200;
  std::string type;  // Content-Type
  Headers headers{};
  std::string body{};
  // Instead of `body`: the next bytes each time that the client has taken those before, "" at the end, nothing where
  // there are none yet: it is asked again a little later, and no thread waits meanwhile. It may block, since it runs
  // on a thread of the handlers; an exception ends the connection. Without a length the body is chunked, as for what
  // is still being made.
  std::function<std::optional<std::string>()> next{};
  std::optional<uint64_t> length{};
};

struct Limits {
  size_t header_bytes = 32 << 10, body_bytes = 16 << 20;
  uint64_t upload_bytes = 0;              // of a body that goes to a file
  std::filesystem::path upload_folder{};  // of such files
  size_t connections =
      512;  // for a further one, the connection is closed that has waited longest for a request, or for its body
  // From the end of an answer, or the start of a connection, to the end of the next request. A browser does
  // not repeat a request whose connection, opened ahead of need, is closed just then, so this is not short.
  std::chrono::milliseconds request{20'000};
  std::chrono::milliseconds write{5'000};  // for each part of an answer (256 KiB of a file)
  // For handlers of POST and of WebSockets, which may wait; as many for the others, and for the bytes of long answers.
  size_t threads = 16;
  // Limits of a WebSocket: bytes of a client's message, and of all that waits for the client; time for the first
  // message, and without a sign of life, for which a ping asks the client halfway.
  size_t socket_message = 128 << 10, socket_queue = 64 << 20;
  std::chrono::milliseconds socket_first{10'000}, socket_idle{60'000};
};

using Handler = std::function<Answer(const Request&)>;

// Routes are paths, whose segments in braces are places for any text: /v1/videos/{id}. A request's text there is a
// name to look up, never a part of a path of files. [one thread, except as said]
class Server {
 public:
  explicit Server(Limits limits = {});
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  ~Server();

  // Sent with every answer.
  void set_headers(Headers headers);
  // Called before the body of a request is read; an answer refuses it and ends the connection. The guard may
  // add headers to the answer of a request it accepts.
  using Guard = std::function<std::optional<Answer>(const Request&, Headers& added)>;
  void set_guard(Guard guard);
  // The answer where no handler is asked, instead of a line of text; 507: the disk of the uploads is full. Called
  // before and after the guard.
  using Refuse = std::function<Answer(int status, const std::string& why)>;
  void set_refuse(Refuse refuse);
  // Called with each answer that begins, by its route's path ("": none), and again with status 0 if the client is gone
  // before its end. In the thread of run().
  using Watch = std::function<void(const std::string& route, const Answer& answer)>;
  void set_watch(Watch watch);
  // A handler of GET also answers HEAD. Handlers run on several threads at a time.
  void get(std::string path, Handler handler);
  void post(std::string path, Handler handler);
  // Its bodies go to files.
  void upload(std::string path, Handler handler);
  void remove(std::string path, Handler handler);  // DELETE
  // Its requests become WebSockets.
  void socket(std::string path, OpenSocket open);

  // Listens on an IPv4 address; port 0: any. Returns the port, or 0 with errno set.
  int bind(int port, const std::string& address = "127.0.0.1");
  // Serves until stopped() is true, which is asked every 50 ms.
  void run(const std::function<bool()>& stopped);
  // For stopped(): from now on no connection and no request is taken. WebSockets get this text and close with 1001
  // (going away); answers that have begun go on.
  void end(const std::string& last_message);
  size_t open_connections() const;  // for stopped()

  struct State;

 private:
  std::unique_ptr<State> state_;
};

// The bytes of a file, or the part that the header Range requests (206, or 416 where the file has none of it).
// Without a value: no file with any bytes.
std::optional<Answer> file_answer(const Request&, const std::string& path, const std::string& type);

// "a%20b+c" to "a b c"; nothing for an incomplete escape.
std::optional<std::string> decoded(std::string_view text);
// Parts of "/path?a=b&c=d". False for a damaged escape.
bool split_target(std::string_view target, std::string& path, Parameters& parameters);

// First and last byte of a file that "bytes=0-99", "bytes=100-" or "bytes=-50" requests.
struct Range {
  bool fits = false;  // else no byte of the file is in it
  uint64_t first = 0, last = 0;
};
// Nothing, as if there were no such header, for what is of several ranges, of another unit or damaged (RFC 9110, 14.2).
std::optional<Range> range_of(std::string_view header, uint64_t size);

struct End {
  uint32_t address = 0;  // IPv4, in the machine's order of bytes
  uint16_t port = 0;
};
// The user id of the process that owns the client's end of a connection, from the kernel's tables of sockets
// (proc(5)); "" if unknown.
std::string owner_of_client(const End& client, const End& server);

}  // namespace kinora::web
