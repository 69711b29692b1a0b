// The manifest's text ends in the middle.
namespace {

[[gnu::section(".attnlab.manifest"), gnu::used]] constexpr char manifest[] =
    "{\"id\": \"broken/manifest_is_no_json\", \"kind\": ";

}  // namespace
