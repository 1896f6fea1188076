// Starts pirkit-lsp for files of the language `pir`.
const { workspace } = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

exports.activate = () => {
  const [command, ...args] = workspace.getConfiguration("pirkit").get("command");
  client = new LanguageClient("pirkit", { command, args }, { documentSelector: ["pir"] });
  return client.start();
};

exports.deactivate = () => client?.stop();
