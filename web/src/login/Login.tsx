/** Sign-in with a token or an API key, which the server turns into an HttpOnly cookie. */
import { useState, type FormEvent } from "react";
import { signIn, useAppStore } from "../app/appStore";

export function Login() {
  const hasFailed = useAppStore((state) => state.authState === "failed");
  const [token, setToken] = useState("");
  const [isInvalid, setIsInvalid] = useState(window.location.hash === "#refused");
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    const response = await fetch(`/ready?token=${encodeURIComponent(token.trim())}`, { redirect: "manual" }).catch(() => null);
    if (response?.type === "opaqueredirect") {
      setToken("");
      await signIn();
    } else setIsInvalid(true);
  };
  return (
    <main className="login">
      <form onSubmit={(event) => void submit(event)}>
        <img src="./icon.svg" alt="" width="48" height="48" />
        <h1>timeloom</h1>
        <p>{hasFailed ? "The server is unreachable, or it refused access." : "Enter the token that the server printed at startup, or your API key."}</p>
        <label htmlFor="token">Token</label>
        <input id="token" type="password" autoComplete="current-password" autoFocus value={token} onChange={(event) => setToken(event.target.value)} />
        {isInvalid && <p role="alert" className="wrong">This token is not valid. <code>timeloom serve</code> prints a new token at each start.</p>}
        <button type="submit" className="primary" disabled={!token.trim()}>Sign in</button>
      </form>
    </main>
  );
}
