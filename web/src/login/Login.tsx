/** Coming in with a key: it becomes a cookie that no script can read. */
import { useState, type FormEvent } from "react";
import { signIn, useAppStore } from "../app/appStore";

export function Login() {
  const refused = useAppStore((state) => state.authState === "refused");
  const [token, setToken] = useState("");
  const [wrong, setWrong] = useState(window.location.hash === "#refused");
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    const response = await fetch(`/ready?token=${encodeURIComponent(token.trim())}`, { redirect: "manual" }).catch(() => null);
    if (response?.type === "opaqueredirect") {
      setToken("");
      await signIn();
    } else setWrong(true);
  };
  return (
    <main className="login">
      <form onSubmit={(event) => void submit(event)}>
        <img src="./icon.svg" alt="" width="48" height="48" />
        <h1>timeloom</h1>
        <p>{refused ? "The server cannot be reached, or does not let you in." : "Enter the token that the server printed, or the key that you were given."}</p>
        <label htmlFor="token">Token</label>
        <input id="token" type="password" autoComplete="current-password" autoFocus value={token} onChange={(event) => setToken(event.target.value)} />
        {wrong && <p role="alert" className="wrong">That token is not known here. Each start of <code>timeloom serve</code> prints a new one.</p>}
        <button type="submit" className="primary" disabled={!token.trim()}>Come in</button>
      </form>
    </main>
  );
}
